#include "topology/host_names.h"

#include <array>
#include <unordered_map>

#include "engine/base/units.h"

namespace ibcoll::topology {
namespace {

constexpr size_t kMaxNames = 1 << 20;
constexpr size_t kMaxNameLength = 255;

class HostList {
 public:
  explicit HostList(std::vector<std::string>& names) : names_(names) {}

  Status expand(std::string_view list) {
    size_t begin = 0;
    int depth = 0;
    for (size_t at = 0; at <= list.size(); ++at) {
      if (at < list.size() && list[at] == '[') ++depth;
      if (at < list.size() && list[at] == ']') --depth;
      if (depth < 0 || depth > 1) return wrong(list, "brackets don't match");
      if (at < list.size() && (list[at] != ',' || depth > 0)) continue;
      if (depth != 0) return wrong(list, "brackets don't match");
      if (at == begin) return wrong(list, "an empty name");
      IBCOLL_TRY(expand_one("", list.substr(begin, at - begin)));
      begin = at + 1;
    }
    return {};
  }

 private:
  static tl::unexpected<Error> wrong(std::string_view list, std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, "host list '{}': {}", list.substr(0, 60), why);
  }

  Status expand_one(const std::string& before, std::string_view rest) {
    const size_t open = rest.find('[');
    if (open == std::string_view::npos) {
      if (names_.size() >= kMaxNames) return wrong(rest, "more than 1048576 names");
      if (before.size() + rest.size() > kMaxNameLength) return wrong(rest, "a name is too long");
      names_.push_back(before + std::string(rest));
      return {};
    }
    const size_t close = rest.find(']');
    const std::string head = before + std::string(rest.substr(0, open));
    const auto ranges = split(rest.substr(open + 1, close - open - 1), ',');
    if (ranges.empty()) return wrong(rest, "empty brackets");
    for (const std::string_view range : ranges) {
      const size_t dash = range.find('-');
      const std::string_view low_text = range.substr(0, dash);
      const std::string_view high_text =
          dash == std::string_view::npos ? low_text : range.substr(dash + 1);
      const auto low = parse_integer(low_text, 0, 999'999'999, "host number");
      const auto high = parse_integer(high_text, 0, 999'999'999, "host number");
      if (!low || !high || *low > *high || low_text.size() > 9)
        return wrong(rest, "not a range of numbers");
      if (static_cast<size_t>(*high - *low) >= kMaxNames)
        return wrong(rest, "more than 1048576 names");
      for (int64_t number = *low; number <= *high; ++number) {
        IBCOLL_TRY(expand_one(head + fmt::format("{:0{}}", number, low_text.size()),
                              rest.substr(close + 1)));
      }
    }
    return {};
  }

  std::vector<std::string>& names_;
};

/// What a name may be called by: itself, its first word, and that up to the first dot.
std::array<std::string_view, 3> short_names(std::string_view name) {
  const std::string_view word = name.substr(0, name.find(' '));
  return {name, word, word.substr(0, word.find('.'))};
}

}  // namespace

Status expand_host_list(std::string_view list, std::vector<std::string>& names) {
  return HostList(names).expand(list);
}

Result<std::vector<int>> find_hosts(const Fabric& fabric, std::span<const std::string> names) {
  constexpr size_t kKinds = 3;
  std::array<std::unordered_map<std::string_view, int>, kKinds> known;
  for (int host = 0; host < fabric.hosts(); ++host) {
    const auto all = short_names(fabric.node(host).name);
    for (size_t kind = 0; kind < kKinds; ++kind) known[kind].emplace(all[kind], host);
  }
  std::vector<int> hosts;
  for (const std::string& name : names) {
    const auto all = short_names(name);
    int found = -1;
    for (size_t kind = 0; kind < kKinds && found < 0; ++kind) {
      const auto entry = known[kind].find(all[kind]);
      if (entry != known[kind].end()) found = entry->second;
    }
    if (found < 0) {
      return fail(ErrorCode::kInvalidArgument, "the fabric {} has no host '{}' (but {} others)",
                  fabric.name(), name, fabric.hosts());
    }
    hosts.push_back(found);
  }
  return hosts;
}

}  // namespace ibcoll::topology
