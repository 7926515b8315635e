#include <algorithm>
#include <unordered_map>
#include <vector>

#include "engine/base/units.h"
#include "topology/fabric_builder.h"
#include "topology/host_names.h"
#include "topology/readers/lines.h"
#include "topology/readers/readers.h"

namespace ibcoll::topology {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == (y >= 'A' && y <= 'Z' ? y - 'A' + 'a' : y);
  });
}

struct Switch {
  std::string name, where;
  std::vector<std::string> hosts, switches;
};

class SlurmReader {
 public:
  SlurmReader(std::string_view text, const std::string& name, const ReadOptions& options)
      : lines_(text, name), options_(options), builder_(name) {}

  Result<Fabric> read() {
    std::string joined;
    for (std::string_view line; lines_.next(line);) {
      line = line.substr(0, line.find('#'));
      const bool more = !line.empty() && line.back() == '\\';
      if (more) line.remove_suffix(1);
      joined += line;
      if (more) continue;
      IBCOLL_TRY(read_line(joined));
      joined.clear();
    }
    if (!joined.empty()) return lines_.fail("the last line ends in \\: the file is cut off");
    if (switches_.empty()) return lines_.fail("no SwitchName=");
    return build();
  }

 private:
  Status read_line(std::string_view line) {
    Switch read;
    Scanner scanner(line);
    for (scanner.skip_blanks(); !scanner.rest().empty(); scanner.skip_blanks()) {
      const std::string_view word = scanner.word();
      const size_t equals = word.find('=');
      const std::string_view key = word.substr(0, equals);
      if (equals == std::string_view::npos || equals + 1 == word.size()) {
        return lines_.fail("'{}' is not KEY=VALUE", word.substr(0, 60));
      }
      const std::string_view value = word.substr(equals + 1);
      Status expanded;
      if (same_word(key, "SwitchName")) {
        read.name = value;
      } else if (same_word(key, "Nodes")) {
        expanded = expand_host_list(value, read.hosts);
      } else if (same_word(key, "Switches")) {
        expanded = expand_host_list(value, read.switches);
      } else if (same_word(key, "BlockName") || same_word(key, "BlockSizes")) {
        return lines_.fail("block topologies tell no switches: only trees can be read");
      } else if (!same_word(key, "LinkSpeed")) {
        return lines_.fail("unknown key '{}': SwitchName, Nodes, Switches, LinkSpeed", key);
      }
      if (!expanded) return lines_.fail("{}", expanded.error().message);
    }
    if (read.name.empty()) {
      if (read.hosts.empty() && read.switches.empty()) return {};
      return lines_.fail("no SwitchName= on the line");
    }
    if (read.hosts.empty() && read.switches.empty()) {
      return lines_.fail("switch '{}' has neither Nodes= nor Switches=", read.name);
    }
    read.where = lines_.where();
    const auto [known, added] = by_name_.emplace(read.name, switches_.size());
    if (!added) {
      return lines_.fail("switch '{}' stands in {} already", read.name,
                         switches_[known->second].where);
    }
    switches_.push_back(std::move(read));
    return {};
  }

  Result<Fabric> build() {
    std::vector<int> nodes;
    for (const Switch& one : switches_) {
      nodes.push_back(builder_.add_switch(one.name));
      builder_.at(nodes.back(), one.where);
    }
    std::unordered_map<std::string, const Switch*> place;
    for (size_t s = 0; s < switches_.size(); ++s) {
      for (const std::string& host : switches_[s].hosts) {
        const auto [known, added] = place.emplace(host, &switches_[s]);
        if (!added) {
          return fail(ErrorCode::kInvalidArgument, "{}: host '{}' is also on switch '{}' ({})",
                      switches_[s].where, host, known->second->name, known->second->where);
        }
        const int node = builder_.add_host(host);
        builder_.at(node, switches_[s].where);
        IBCOLL_TRY(builder_.connect(node, nodes[s], {options_.bandwidth, options_.latency_ns}));
      }
      for (const std::string& child : switches_[s].switches) {
        const auto found = by_name_.find(child);
        if (found == by_name_.end()) {
          return fail(ErrorCode::kInvalidArgument, "{}: switch '{}' has no line of its own",
                      switches_[s].where, child);
        }
        if (found->second == s) {
          return fail(ErrorCode::kInvalidArgument, "{}: switch '{}' is below itself",
                      switches_[s].where, child);
        }
        const double trunk = options_.trunks.empty() ? options_.bandwidth : options_.trunks[0];
        IBCOLL_TRY(builder_.connect(nodes[found->second], nodes[s], {trunk, options_.latency_ns}));
      }
    }
    builder_.set_switch_latency(options_.switch_latency_ns.value_or(0));
    builder_.note("topology.conf tells neither bandwidths nor routes: one cable each, fewest hops");
    const Status begun = builder_.begin_routes();
    if (!begun) return lines_.fail("{}", begun.error().message);
    IBCOLL_TRY(builder_.route_shortest());
    auto fabric = builder_.finish();
    if (fabric) return fabric;
    return lines_.fail("{}", fabric.error().message);
  }

  Lines lines_;
  const ReadOptions& options_;
  FabricBuilder builder_;
  std::vector<Switch> switches_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace

Result<Fabric> read_slurm(std::string_view text, const std::string& name,
                          const ReadOptions& options) {
  return SlurmReader(text, name, options).read();
}

}  // namespace ibcoll::topology
