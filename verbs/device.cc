#include "verbs/device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <mutex>
#include <tuple>

#include "engine/base/link_rate.h"
#include "engine/base/log.h"
#include "verbs/gid_choice.h"
#include "verbs/paths.h"
#include "verbs/port_defaults.h"

namespace ibcoll::verbs {

namespace {

/// A program may fork (system, popen) while its memory is registered: kernels before 5.12 would
/// then give the child the pages that the device writes to, and the parent copies of them. Has to
/// come before anything is registered; newer kernels need nothing, and it does nothing there.
bool make_fork_safe() {
  if (const int error = ibv_fork_init(); error != 0) {
    log().warn("registered memory is not safe from fork: {}", std::strerror(error));
    return false;
  }
  return true;
}

/// The devices as libibverbs lists them, which takes long on machines with many.
class DeviceList {
 public:
  /// Those that were listed last, by any thread; listed if none have been.
  static std::shared_ptr<const DeviceList> last() {
    const std::lock_guard lock(mutex());
    if (!newest()) newest() = std::make_shared<const DeviceList>();
    return newest();
  }
  /// Those that are there now.
  static std::shared_ptr<const DeviceList> now() {
    auto fresh = std::make_shared<const DeviceList>();
    const std::lock_guard lock(mutex());
    newest() = fresh;
    return fresh;
  }

  DeviceList() {
    [[maybe_unused]] static const bool fork_safe = make_fork_safe();
    devices_ = ibv_get_device_list(&count_);
  }
  ~DeviceList() {
    if (devices_) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  std::span<ibv_device*> all() const {
    return {devices_, devices_ ? static_cast<size_t>(count_) : 0};
  }
  ibv_device* find(const std::string& name) const {
    for (ibv_device* device : all())
      if (name == ibv_get_device_name(device)) return device;
    return nullptr;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::shared_ptr<const DeviceList>& newest() {
    static std::shared_ptr<const DeviceList> list;
    return list;
  }

  int count_ = 0;
  ibv_device** devices_ = nullptr;
};

/// The longest packets up to so many bytes that a port with this MTU sends; 0: no matter.
ibv_mtu at_most(ibv_mtu mtu, int bytes) {
  int code = mtu;
  while (bytes > 0 && code > IBV_MTU_256 && 128 << code > bytes) --code;
  return static_cast<ibv_mtu>(code);
}

int numa_node_of(const ibv_device& device) {
  std::ifstream file(std::string(device.ibdev_path) + "/device/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

/// The speed's code; newer libraries have a wider field, for speeds that the old one can't say.
template <class Attributes>
uint32_t speed_code(const Attributes& attributes) {
  if constexpr (requires { attributes.active_speed_ex; }) {
    if (attributes.active_speed_ex != 0) return attributes.active_speed_ex;
  }
  return attributes.active_speed;
}

/// The device's addresses of all its ports, in one system call: tables are long and mostly empty.
std::vector<ibv_gid_entry> gids_of(ibv_context* context, size_t most) {
  std::vector<ibv_gid_entry> entries(most);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  entries.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return entries;
}

/// What to say where a port has no such address.
std::string no_gid(const std::vector<ibv_gid_entry>& own, int wanted) {
  constexpr size_t kShown = 4;
  std::vector<std::string> there;
  for (const ibv_gid_entry& entry : own)
    there.push_back(fmt::format("{} {}", entry.gid_index, gid_text(entry.gid)));
  const std::string more = there.size() > kShown ? ", ..." : "";
  there.resize(std::min(there.size(), kShown));
  return fmt::format("no GID of index {} (IBCOLL_GID_INDEX), only {}{}", wanted,
                     there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")), more);
}

/// Whether packets can be sent from a GID: the kernel says so of a way from it to itself. Error:
/// why not.
Status try_gid(ibv_pd* domain, const PortInfo& port, const ibv_gid_entry& entry) {
  ibv_ah_attr attributes{};
  attributes.port_num = static_cast<uint8_t>(port.port);
  attributes.is_global = 1;
  attributes.grh.dgid = entry.gid;
  attributes.grh.sgid_index = static_cast<uint8_t>(entry.gid_index);
  attributes.grh.hop_limit = 1;
  if (AddressHandle(ibv_create_ah(domain, &attributes))) return {};
  return fail_errno(fmt::format("GID {} does not work", gid_text(entry.gid)));
}

/// Chooses the port's own address of those that the device has for all its ports.
void choose_gid(ibv_context* context, const std::vector<ibv_gid_entry>& entries,
                const DeviceOptions& options, PortInfo& port) {
  std::vector<ibv_gid_entry> own;
  for (const ibv_gid_entry& entry : entries)
    if (entry.port_num == static_cast<uint32_t>(port.port)) own.push_back(entry);
  const auto take = [&port](const ibv_gid_entry& entry) {
    port.gid_index = static_cast<int>(entry.gid_index);
    port.gid = entry.gid;
    port.gid_type = gid_type_name(entry.gid_type);
    port.gid_text = gid_text(entry.gid);
  };
  if (options.gid_index >= 0) {
    const auto wanted = std::find_if(own.begin(), own.end(), [&](const ibv_gid_entry& entry) {
      return static_cast<int>(entry.gid_index) == options.gid_index;
    });
    if (wanted == own.end())
      port.missing = no_gid(own, options.gid_index);
    else
      take(*wanted);
    return;
  }
  if (!port.ethernet) {  // InfiniBand: the first one is the port's own
    if (!own.empty()) take(own.front());
    return;
  }
  const std::vector<ibv_gid_entry> ranked = ranked_gids(own);
  port.missing = own.empty() ? "no GID" : "no GID of this network namespace";
  if (ranked.empty()) return;
  const DomainHandle domain(ibv_alloc_pd(context));
  for (size_t i = 0; i < ranked.size(); ++i) {
    const Status works = domain ? try_gid(domain.get(), port, ranked[i])
                                : fail_errno("no protection domain to try GIDs with");
    if (works) {
      port.missing.clear();
      take(ranked[i]);
      return;
    }
    if (i == 0) port.missing = works.error().message;
  }
}

/// The first partition that the port is a full member of: limited members don't reach each other.
/// Entries may be empty. A partition is named with or without the bit for full members.
void choose_pkey(ibv_context* context, const DeviceOptions& options, int table_size,
                 PortInfo& port) {
  constexpr uint16_t kFull = 0x8000;
  const auto number = [](uint16_t key) { return static_cast<uint16_t>(key & ~kFull); };
  std::string limited;
  for (int index = 0; index < table_size; ++index) {
    __be16 entry = 0;
    if (ibv_query_pkey(context, static_cast<uint8_t>(port.port), index, &entry) != 0) continue;
    const uint16_t key = ntohs(entry);
    if (number(key) == 0 || (options.pkey && number(key) != number(*options.pkey))) continue;
    if ((key & kFull) != 0) {
      port.pkey_index = static_cast<uint16_t>(index);
      port.pkey = entry;
      return;
    }
    if (limited.empty()) limited = fmt::format(": a limited member of partition {:#06x}", key);
  }
  port.missing = options.pkey ? fmt::format("no full member of partition {:#06x} (IBCOLL_PKEY){}",
                                            number(*options.pkey), limited)
                              : fmt::format("no full member of a partition{}", limited);
}

/// "rxe10" after "rxe9".
bool natural_less(const PortInfo& a, const PortInfo& b) {
  const auto parts = [](const PortInfo& port) {
    const size_t digits = port.device.find_last_not_of("0123456789") + 1;
    int number = -1;
    std::from_chars(port.device.data() + digits, port.device.data() + port.device.size(), number);
    return std::tuple(port.device.substr(0, digits), number, port.port);
  };
  return parts(a) < parts(b);
}

/// What is there of ports, and why those that can't be used can't.
std::string present(const std::vector<PortInfo>& ports) {
  if (ports.empty()) return "libibverbs lists no device";
  constexpr size_t kShown = 4;
  std::vector<std::string> names;
  for (const PortInfo& port : ports) {
    if (names.size() == kShown) break;
    const std::string why = port.missing.empty() ? "not active" : port.missing;
    names.push_back(port.name() + (port.active ? "" : fmt::format(" ({})", why)));
  }
  if (ports.size() > kShown) names.push_back(fmt::format("{} more", ports.size() - kShown));
  return fmt::format("there is {}", fmt::join(names, ", "));
}

}  // namespace

std::string PortInfo::name() const { return fmt::format("{}:{}", device, port); }

std::vector<PortInfo> list_ports(const DeviceOptions& options) {
  std::vector<PortInfo> ports;
  const auto list = DeviceList::now();
  for (ibv_device* device : list->all()) {
    const ContextHandle context(ibv_open_device(device));
    ibv_device_attr limits{};
    if (!context || ibv_query_device(context.get(), &limits) != 0) {
      log().warn("RDMA device {} does not open: {}", ibv_get_device_name(device),
                 std::strerror(errno));
      continue;
    }
    std::vector<PortInfo> own;
    std::vector<ibv_port_attr> states;
    size_t addresses = 0;
    for (int number = 1; number <= limits.phys_port_cnt; ++number) {
      ibv_port_attr attributes{};
      if (ibv_query_port(context.get(), static_cast<uint8_t>(number), &attributes) != 0) continue;
      PortInfo port;
      port.device = ibv_get_device_name(device);
      port.port = number;
      port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
      port.global = port.ethernet || (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
      port.lid = attributes.lid;
      port.mtu = at_most(attributes.active_mtu, options.mtu_bytes);
      port.rate_mbps = static_cast<uint64_t>(
          link_rate(attributes.active_width, speed_code(attributes)) * 8 / 1e6);
      port.max_message_bytes = attributes.max_msg_sz;
      port.service_level = options.service_level;
      port.traffic_class = options.traffic_class >= 0 ? options.traffic_class
                           : port.ethernet            ? default_traffic_class(port.device, number)
                                                      : 0;
      port.numa_node = numa_node_of(*device);
      port.max_queue_pairs = limits.max_qp;
      port.max_work_requests = limits.max_qp_wr;
      port.max_segments = std::max(limits.max_sge, 1);
      port.max_completion_queues = limits.max_cq;
      port.max_completions = limits.max_cqe;
      port.max_shared_queues = limits.max_srq;
      port.max_shared_receives = limits.max_srq_wr;
      port.max_registrations = limits.max_mr;
      port.max_registration_bytes = limits.max_mr_size;
      addresses += static_cast<size_t>(attributes.gid_tbl_len);
      own.push_back(std::move(port));
      states.push_back(attributes);
    }
    const std::vector<ibv_gid_entry> gids = gids_of(context.get(), addresses);
    for (size_t i = 0; i < own.size(); ++i) {
      PortInfo& port = own[i];
      if (states[i].state == IBV_PORT_ACTIVE) {
        choose_pkey(context.get(), options, states[i].pkey_tbl_len, port);
        if (port.missing.empty()) choose_gid(context.get(), gids, options, port);
        port.active = port.missing.empty();
      }
      ports.push_back(std::move(port));
    }
  }
  std::sort(ports.begin(), ports.end(), natural_less);
  return ports;
}

Result<std::vector<PortInfo>> usable_ports(const DeviceOptions& options) {
  const std::vector<PortInfo> all = list_ports(options);
  const std::string there = present(all);

  std::vector<PortInfo> usable;
  if (options.devices.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(usable),
                 [](const PortInfo& port) { return port.active; });
    if (usable.empty()) return fail(ErrorCode::kUnsupported, "no usable RDMA port: {}", there);
    return usable;
  }
  for (const std::string& wanted : options.devices) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const PortInfo& port) {
      return port.active && (port.name() == wanted || port.device == wanted);
    });
    if (found == all.end())
      return fail(ErrorCode::kUnsupported, "no usable RDMA port \"{}\": {}", wanted, there);
    const bool known = std::any_of(usable.begin(), usable.end(), [&](const PortInfo& port) {
      return port.name() == found->name();
    });
    if (!known) usable.push_back(*found);
  }
  return usable;
}

Result<Device> Device::open(const PortInfo& port, int place) {
  auto list = DeviceList::last();
  // It may have come since.
  if (list->find(port.device) == nullptr) list = DeviceList::now();
  ibv_device* const device = list->find(port.device);
  if (device == nullptr)
    return fail(ErrorCode::kUnsupported, "RDMA device {} is gone", port.device);
  Device result;
  result.port_ = port;
  result.place_ = place;
  result.paths_ = std::make_shared<Paths>(port);
  result.context_.reset(ibv_open_device(device));
  if (!result.context_) return fail_errno(fmt::format("RDMA device {} does not open", port.device));
  result.domain_.reset(ibv_alloc_pd(result.context_.get()));
  if (!result.domain_) return fail_errno(fmt::format("no protection domain on {}", port.device));
  return result;
}

int Device::completion_vector() const { return place_ % std::max(context()->num_comp_vectors, 1); }

}  // namespace ibcoll::verbs
