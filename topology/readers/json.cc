#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/json.h"
#include "engine/base/units.h"
#include "topology/fabric_builder.h"
#include "topology/readers/member_lines.h"
#include "topology/readers/readers.h"

namespace ibcoll::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "ibcoll fabric 1";

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& name, const ReadOptions& options)
      : text_(text), file_(name), options_(options), builder_(name) {}

  Result<Fabric> read() {
    IBCOLL_ASSIGN(lines_, find_member_lines(text_, file_));
    IBCOLL_ASSIGN(root_, parse_json(text_));
    IBCOLL_TRY(check_keys(
        root_, "",
        {"format", "name", "switch_latency_ns", "hosts", "switches", "cables", "routes", "notes"}));
    if (!root_.contains("format") || root_["format"] != kFormat) {
      return wrong("/format", "\"format\" must be \"{}\"", kFormat);
    }
    const std::string name = root_.contains("name") && root_["name"].is_string()
                                 ? root_["name"].get<std::string>()
                                 : file_;
    builder_ = FabricBuilder(name);
    IBCOLL_TRY(read_latency());
    IBCOLL_TRY(read_notes());
    IBCOLL_TRY(read_nodes("hosts"));
    IBCOLL_TRY(read_nodes("switches"));
    IBCOLL_TRY(read_cables());
    const Status routes = builder_.begin_routes();
    if (!routes) return wrong("/cables", "{}", routes.error().message);
    IBCOLL_TRY(read_routes());
    auto fabric = builder_.finish();
    if (!fabric) return wrong("/routes", "{}", fabric.error().message);
    return fabric;
  }

 private:
  /// An error at the line of a pointer, or of the nearest thing around it.
  template <class... Args>
  tl::unexpected<Error> wrong(std::string path, fmt::format_string<Args...> format,
                              Args&&... args) const {
    const std::string where = path;
    auto found = lines_.find(path);
    while (found == lines_.end() && !path.empty()) {
      path.resize(path.rfind('/'));
      found = lines_.find(path);
    }
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {}: {}", file_,
                found == lines_.end() ? 1 : found->second, where.empty() ? "/" : where,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Status check_keys(const Json& object, const std::string& path,
                    std::initializer_list<std::string_view> known) const {
    if (!object.is_object()) return wrong(path, "must be an object");
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        return wrong(path, "unknown member \"{}\"", key.substr(0, 60));
      }
    }
    return {};
  }
  /// A member that must be a list.
  Result<const Json*> list(const char* key) const {
    if (!root_.contains(key) || !root_[key].is_array()) {
      return wrong(fmt::format("/{}", key), "\"{}\" must be a list", key);
    }
    return &root_[key];
  }
  Result<int64_t> integer(const Json& value, const std::string& path, int64_t low,
                          int64_t high) const {
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    if (!value.is_number_integer() || huge || value.get<int64_t>() < low ||
        value.get<int64_t>() > high) {
      return wrong(path, "must be a whole number from {} to {}", low, high);
    }
    return value.get<int64_t>();
  }

  Status read_latency() {
    int64_t latency = 0;
    if (root_.contains("switch_latency_ns")) {
      IBCOLL_ASSIGN(latency,
                    integer(root_["switch_latency_ns"], "/switch_latency_ns", 0, 10'000'000'000));
    }
    builder_.set_switch_latency(options_.switch_latency_ns.value_or(latency));
    return {};
  }

  Status read_notes() {
    if (!root_.contains("notes")) return {};
    IBCOLL_ASSIGN(const Json* notes, list("notes"));
    for (const Json& note : *notes) {
      if (!note.is_string()) return wrong("/notes", "notes are texts");
      builder_.note(note.get<std::string>());
    }
    return {};
  }

  Status read_nodes(const char* kind) {
    IBCOLL_ASSIGN(const Json* nodes, list(kind));
    for (size_t i = 0; i < nodes->size(); ++i) {
      const Json& node = (*nodes)[i];
      const std::string path = fmt::format("/{}/{}", kind, i);
      std::string name;
      uint64_t guid = 0;
      int64_t lid = 0;
      if (node.is_string()) {
        name = node.get<std::string>();
      } else {
        IBCOLL_TRY(check_keys(node, path, {"name", "guid", "lid"}));
        if (!node.contains("name") || !node["name"].is_string()) {
          return wrong(path, "\"name\" must be a text");
        }
        name = node["name"].get<std::string>();
        if (node.contains("guid")) {
          IBCOLL_ASSIGN(guid, read_guid(node["guid"], path));
        }
        if (node.contains("lid")) {
          IBCOLL_ASSIGN(lid, integer(node["lid"], path + "/lid", 0, 0xbfff));
        }
      }
      if (name.empty()) return wrong(path, "an empty name");
      const bool is_switch = std::string_view(kind) == "switches";
      const int number = is_switch ? builder_.add_switch(name, guid, static_cast<uint16_t>(lid))
                                   : builder_.add_host(name, guid, static_cast<uint16_t>(lid));
      if (!nodes_.emplace(name, number).second) return wrong(path, "'{}' stands twice", name);
      if (guid != 0 && !guids_.insert(guid).second) {
        return wrong(path, "GUID 0x{:016x} of '{}' stands twice", guid, name);
      }
      if (lid != 0 && !lids_.insert(lid).second) {
        return wrong(path, "LID {} of '{}' stands twice", lid, name);
      }
      (is_switch ? switches_ : hosts_).push_back(number);
    }
    return {};
  }

  Result<uint64_t> read_guid(const Json& value, const std::string& path) const {
    if (value.is_string()) {
      const std::string text = value.get<std::string>();
      if (text.rfind("0x", 0) == 0 && text.size() > 2 && text.size() <= 18 &&
          text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos) {
        return std::stoull(text, nullptr, 16);
      }
    }
    return wrong(path + "/guid", "a GUID is a text like \"0x0002c903006e1430\"");
  }

  Status read_cables() {
    IBCOLL_ASSIGN(const Json* cables, list("cables"));
    for (size_t i = 0; i < cables->size(); ++i) {
      IBCOLL_TRY(read_cable((*cables)[i], fmt::format("/cables/{}", i)));
    }
    return {};
  }

  Status read_cable(const Json& value, const std::string& path) {
    IBCOLL_TRY(check_keys(value, path, {"ends", "bandwidth", "latency_ns", "count"}));
    if (!value.contains("ends") || !value["ends"].is_array()) {
      return wrong(path, "\"ends\" must be a list of two names, or of name, port, name, port");
    }
    const Json& ends = value["ends"];
    const bool with_ports = ends.size() == 4;
    if (!with_ports && ends.size() != 2) {
      return wrong(path + "/ends", "two names, or name, port, name, port");
    }
    int node[2], port[2] = {0, 0};
    for (int end = 0; end < 2; ++end) {
      const Json& name = ends[end * (with_ports ? 2 : 1)];
      const auto found = name.is_string() ? nodes_.find(name.get<std::string>()) : nodes_.end();
      if (found == nodes_.end()) {
        return wrong(path + "/ends", "no host and no switch is named {}",
                     name.is_string() ? "'" + name.get<std::string>().substr(0, 60) + "'"
                                      : std::string("by what is not a text"));
      }
      node[end] = found->second;
      if (with_ports) {
        IBCOLL_ASSIGN(const int64_t number,
                      integer(ends[end * 2 + 1], path + "/ends", 1, Fabric::kMaxPort));
        port[end] = static_cast<int>(number);
      }
    }
    IBCOLL_ASSIGN(const Cable cable, read_speed(value, path));
    int64_t count = 1;
    if (value.contains("count")) {
      if (with_ports) return wrong(path + "/count", "a count and port numbers exclude each other");
      IBCOLL_ASSIGN(count, integer(value["count"], path + "/count", 1, 4096));
    }
    for (int64_t i = 0; i < count; ++i) {
      const Status joined = with_ports ? builder_.connect(node[0], port[0], node[1], port[1], cable)
                                       : builder_.connect(node[0], node[1], cable);
      if (!joined) return wrong(path, "{}", joined.error().message);
    }
    return {};
  }

  Result<Cable> read_speed(const Json& value, const std::string& path) const {
    Cable cable{options_.bandwidth, options_.latency_ns};
    if (value.contains("bandwidth")) {
      const Json& rate = value["bandwidth"];
      if (rate.is_string()) {
        const auto parsed = parse_rate(rate.get<std::string>());
        if (!parsed) return wrong(path + "/bandwidth", "{}", parsed.error().message);
        cable.bandwidth = *parsed;
      } else if (rate.is_number()) {
        cable.bandwidth = rate.get<double>();
      } else {
        return wrong(path + "/bandwidth", "bytes a second, or a text like \"100Gbit/s\"");
      }
      if (!(cable.bandwidth >= 1 && cable.bandwidth <= 1e15)) {
        return wrong(path + "/bandwidth", "must be 1 to 1e15 bytes a second");
      }
    }
    if (value.contains("latency_ns")) {
      IBCOLL_ASSIGN(cable.latency_ns,
                    integer(value["latency_ns"], path + "/latency_ns", 0, 10'000'000'000));
    }
    return cable;
  }

  Status read_routes() {
    if (!root_.contains("routes") || root_["routes"] == "shortest") {
      return builder_.route_shortest();
    }
    const Json& routes = root_["routes"];
    if (!routes.is_object()) {
      return wrong("/routes", "\"shortest\", or a list of ports for each switch");
    }
    size_t several = 0;
    for (const auto& [name, ports] : routes.items()) {
      const std::string path = "/routes/" + name;
      const auto found = nodes_.find(name);
      if (found == nodes_.end() ||
          std::find(switches_.begin(), switches_.end(), found->second) == switches_.end()) {
        return wrong(path, "no switch is named '{}'", name.substr(0, 60));
      }
      if (!ports.is_array() || ports.size() != hosts_.size()) {
        return wrong(path, "a list of {} ports, one a host", hosts_.size());
      }
      for (size_t host = 0; host < hosts_.size(); ++host) {
        const bool choice = ports[host].is_array() && !ports[host].empty();
        several += choice && ports[host].size() > 1;
        IBCOLL_ASSIGN(const int64_t port,
                      integer(choice ? ports[host][0] : ports[host],
                              fmt::format("{}/{}", path, host), 0, Fabric::kMaxPort));
        builder_.set_port(found->second, hosts_[host], static_cast<int>(port));
      }
    }
    if (several > 0) {
      builder_.note(fmt::format(
          "adaptive routing: {} entries name several ports; the first is taken", several));
    }
    return {};
  }

  std::string_view text_;
  std::string file_;
  const ReadOptions& options_;
  FabricBuilder builder_;
  std::unordered_map<std::string, int> lines_;
  Json root_;
  std::unordered_map<std::string, int> nodes_;
  std::unordered_set<uint64_t> guids_;
  std::unordered_set<int64_t> lids_;
  std::vector<int> hosts_, switches_;
};

Json node_to_json(const Node& node) {
  if (node.guid == 0 && node.lid == 0) return node.name;
  Json json{{"name", node.name}};
  if (node.guid != 0) json["guid"] = fmt::format("0x{:016x}", node.guid);
  if (node.lid != 0) json["lid"] = node.lid;
  return json;
}

}  // namespace

Result<Fabric> read_json(std::string_view text, const std::string& name,
                         const ReadOptions& options) {
  return JsonReader(text, name, options).read();
}

std::string write_json(const Fabric& fabric) {
  // By hand down to one node, cable or table a line, so that errors and diffs can name lines.
  const auto dump = [](const Json& json) { return json_text(json); };
  std::string text =
      fmt::format("{{\n\"format\": \"{}\",\n\"name\": {},\n\"switch_latency_ns\": {},\n", kFormat,
                  dump(fabric.name()), fabric.switch_latency_ns());
  const auto list = [&](const char* key, int first, int last) {
    text += fmt::format("\"{}\": [", key);
    for (int node = first; node < last; ++node) {
      text += fmt::format("{}{}", node == first ? "\n  " : ",\n  ",
                          dump(node_to_json(fabric.node(node))));
    }
    text += "\n],\n";
  };
  list("hosts", 0, fabric.hosts());
  list("switches", fabric.hosts(), fabric.nodes());
  text += "\"cables\": [";
  for (int l = 0; l < fabric.links(); l += 2) {
    const Link& link = fabric.link(l);
    const Json cable{
        {"ends",
         {fabric.node(link.from).name, link.from_port, fabric.node(link.to).name, link.to_port}},
        {"bandwidth", link.bandwidth},
        {"latency_ns", link.latency_ns}};
    text += fmt::format("{}{}", l == 0 ? "\n  " : ",\n  ", dump(cable));
  }
  text += "\n],\n\"routes\": {";
  for (int s = fabric.hosts(); s < fabric.nodes(); ++s) {
    Json ports = Json::array();
    for (int to = 0; to < fabric.hosts(); ++to) {
      const int link = fabric.next_link(s, to);
      ports.push_back(link < 0 ? 0 : static_cast<int>(fabric.link(link).from_port));
    }
    text += fmt::format("{}{}: {}", s == fabric.hosts() ? "\n  " : ",\n  ",
                        dump(fabric.node(s).name), dump(ports));
  }
  text += "\n}";
  if (!fabric.notes().empty()) text += fmt::format(",\n\"notes\": {}", dump(fabric.notes()));
  return text + "\n}\n";
}

}  // namespace ibcoll::topology
