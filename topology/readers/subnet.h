#pragma once
/// An InfiniBand subnet as it was discovered, before it becomes a Fabric: what the reader of
/// ibnetdiscover's output and the live discovery have in common.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "topology/readers/readers.h"

namespace ibcoll::topology {

/// One end of a cable.
struct SubnetPort {
  int number = 0;
  uint64_t guid = 0;  ///< of a host's port
  int lid = 0;        ///< of a host's port; 0 before the subnet manager has run
  int lmc = 0;        ///< the port has 2^lmc LIDs from `lid` on
  uint64_t peer = 0;  ///< node GUID of the other end
  int peer_port = 0;
  double bandwidth = 0;  ///< bytes a second
  std::string where;     ///< "file:line", or empty
};

struct SubnetNode {
  std::string name;
  uint64_t guid = 0;
  bool is_switch = false;
  int lid = 0;  ///< of a switch
  std::vector<SubnetPort> ports;
  std::string where;
};

/// The forwarding table of one switch.
struct SubnetTable {
  struct Entry {
    int lid = 0, port = 0;
    int line = 0;
  };
  uint64_t guid = 0;
  std::vector<Entry> entries;
  std::string where;
};

struct Subnet {
  std::string name;
  std::vector<SubnetNode> nodes;
  std::vector<SubnetTable> tables;
  std::string tables_name;  ///< file of the tables, for errors; empty: there are none
  std::vector<std::string> notes;
};

/// Checks a subnet and makes the fabric. Each connected port of a host is a host of the fabric,
/// numbered in the natural order of names (h2 before h10). Without tables routes of fewest hops are
/// computed.
Result<Fabric> to_fabric(Subnet subnet, const ReadOptions& options);

}  // namespace ibcoll::topology
