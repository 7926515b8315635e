#include "studies/mapping/launch_file.h"

#include <set>
#include <sstream>

#include "engine/base/input.h"
#include "engine/base/json.h"

namespace ibcoll::topology {

std::string launch_file(LaunchFormat format, const Placement& placement,
                        std::span<const std::string> hosts) {
  std::string text;
  switch (format) {
    case LaunchFormat::kRankfile: {
      std::vector<int> slots(hosts.size(), 0);
      for (size_t rank = 0; rank < placement.size(); ++rank) {
        const int node = placement[rank];
        text += fmt::format("rank {}={} slot={}\n", rank, hosts[node], slots[node]++);
      }
      break;
    }
    case LaunchFormat::kSlurm:
      for (const int node : placement) text += hosts[node] + "\n";
      break;
    case LaunchFormat::kJson: {
      nlohmann::ordered_json json;
      json["hosts"] = nlohmann::ordered_json::array();
      for (const int node : placement) json["hosts"].push_back(hosts[node]);
      json["nodes"] = placement;
      text = json_text(json) + "\n";
      break;
    }
  }
  return text;
}

Result<std::vector<std::string>> read_hosts(const std::string& path, int nodes) {
  IBCOLL_ASSIGN(std::string text, read_input(path));
  std::istringstream file(std::move(text));
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  std::string line;
  while (std::getline(file, line)) {
    line.resize(std::min(line.find('#'), line.size()));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const std::string name = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (name.find_first_of(" \t=") != std::string::npos) {
      return fail(ErrorCode::kInput, "{}: \"{}\" is not a host name", path, name);
    }
    if (!seen.insert(name).second) {
      return fail(ErrorCode::kInput, "{}: host {} is given twice", path, name);
    }
    hosts.push_back(name);
  }
  if (static_cast<int>(hosts.size()) != nodes) {
    return fail(ErrorCode::kInput, "{}: {} hosts for a network of {} nodes", path, hosts.size(),
                nodes);
  }
  return hosts;
}

}  // namespace ibcoll::topology
