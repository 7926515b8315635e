// The live subnet: nodes and cables through libibnetdisc, forwarding tables by directed queries.

#include <infiniband/ibnetdisc.h>
#include <infiniband/mad.h>

#include <memory>

#include "engine/base/link_rate.h"
#include "topology/readers/readers.h"
#include "topology/readers/subnet.h"

namespace ibcoll::topology {
namespace {

constexpr int kLidsOfBlock = 64;  ///< a query of the linear forwarding table answers so many
constexpr int kDrop = 255;
constexpr uint32_t kFdr10 = 8;           ///< of link_rate(): a vendor's attribute tells it
constexpr uint32_t kExtendedSpeeds = 4;  ///< so many bits up are the extended speeds there

using FabricHandle = std::unique_ptr<ibnd_fabric_t, decltype(&ibnd_destroy_fabric)>;
using PortHandle = std::unique_ptr<ibmad_port, decltype(&mad_rpc_close_port)>;

/// Bytes a second of a port.
double rate_of(ibnd_port_t& port) {
  // The extended code is 0 for speeds that have a code of the first kind.
  uint32_t speed = mad_get_field(port.info, 0, IB_PORT_LINK_SPEED_EXT_ACTIVE_F) << kExtendedSpeeds;
  if (speed == 0) {
    speed = mad_get_field(port.ext_info, 0, IB_MLNX_EXT_PORT_LINK_SPEED_ACTIVE_F) == 1
                ? kFdr10
                : mad_get_field(port.info, 0, IB_PORT_LINK_SPEED_ACTIVE_F);
  }
  return link_rate(mad_get_field(port.info, 0, IB_PORT_LINK_WIDTH_ACTIVE_F), speed);
}

/// The description without what a firmware may leave at its end.
std::string name_of(const ibnd_node_t& node) {
  std::string name(node.nodedesc);
  while (!name.empty() && static_cast<unsigned char>(name.back()) <= ' ') name.pop_back();
  return name.empty() ? fmt::format("0x{:016x}", node.guid) : name;
}

Status add_table(ibmad_port* port, ibnd_node_t& node, Subnet& subnet) {
  SubnetTable table{node.guid, {}, name_of(node)};
  const int top = static_cast<int>(mad_get_field(node.switchinfo, 0, IB_SW_LINEAR_FDB_TOP_F));
  for (int block = 0; block * kLidsOfBlock <= top; ++block) {
    uint8_t ports[IB_SMP_DATA_SIZE] = {};
    if (smp_query_via(ports, &node.path_portid, IB_ATTR_LINEARFORWTBL, block, 0, port) == nullptr) {
      return fail(ErrorCode::kSystem, "switch '{}' does not tell its forwarding table (block {})",
                  table.where, block);
    }
    for (int i = 0; i < kLidsOfBlock; ++i) {
      const int lid = block * kLidsOfBlock + i;
      if (lid >= 1 && lid <= top && ports[i] != kDrop) table.entries.push_back({lid, ports[i], 0});
    }
  }
  subnet.tables.push_back(std::move(table));
  return {};
}

void add_node(ibnd_node_t& node, Subnet& subnet) {
  SubnetNode found;
  found.name = name_of(node);
  found.where = found.name;
  found.guid = node.guid;
  found.is_switch = node.type == IB_NODE_SWITCH;
  found.lid = found.is_switch ? node.smalid : 0;
  for (int number = 1; number <= node.numports; ++number) {
    ibnd_port_t* const port = node.ports[number];
    if (port == nullptr || port->remoteport == nullptr) continue;
    found.ports.push_back({number, port->guid, found.is_switch ? 0 : port->base_lid,
                           found.is_switch ? 0 : port->lmc, port->remoteport->node->guid,
                           port->remoteport->portnum, rate_of(*port), found.name});
  }
  subnet.nodes.push_back(std::move(found));
}

}  // namespace

Result<Fabric> discover(const std::string& device, const ReadOptions& options) {
  std::string name = device;  // the library takes it without const
  char* const ca = device.empty() ? nullptr : name.data();
  ibnd_config config = {};
  const FabricHandle fabric(ibnd_discover_fabric(ca, 0, nullptr, &config), ibnd_destroy_fabric);
  if (fabric == nullptr) {
    return fail(
        ErrorCode::kSystem,
        "no InfiniBand subnet could be discovered through {} (is there a device, and may this "
        "user send management datagrams?)",
        device.empty() ? "the first device" : device);
  }
  int classes[] = {IB_SMI_CLASS, IB_SMI_DIRECT_CLASS};
  const PortHandle port(mad_rpc_open_port(ca, 0, classes, 2), mad_rpc_close_port);
  if (port == nullptr) {
    return fail(ErrorCode::kSystem, "can't open a port to ask switches for forwarding tables");
  }
  Subnet subnet;
  subnet.name = device.empty() ? "live" : "live:" + device;
  subnet.tables_name = "forwarding tables";
  for (ibnd_node_t* node = fabric->nodes; node != nullptr; node = node->next) {
    if (node->type == IB_NODE_ROUTER) {
      return fail(ErrorCode::kUnsupported, "the subnet has a router ('{}'), which is not modelled",
                  name_of(*node));
    }
    add_node(*node, subnet);
    if (node->type == IB_NODE_SWITCH) IBCOLL_TRY(add_table(port.get(), *node, subnet));
  }
  return to_fabric(std::move(subnet), options);
}

}  // namespace ibcoll::topology
