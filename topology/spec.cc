#include "topology/spec.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "engine/base/units.h"
#include "topology/generators.h"
#include "topology/readers/readers.h"

namespace ibcoll::topology {
namespace {

/// A specification taken apart.
struct Spec {
  std::string_view text;
  std::vector<std::string_view> numbers;
  std::map<std::string_view, std::string_view> keys;
  LinkSpeeds speeds;

  std::string what(std::string_view part) const {
    return fmt::format("{} of network \"{}\"", part, text);
  }
  /// The number of a key, or `otherwise`.
  Result<int> integer(std::string_view key, int low, int high, int otherwise) const {
    const auto found = keys.find(key);
    if (found == keys.end()) return otherwise;
    IBCOLL_ASSIGN(const int64_t value, parse_integer(found->second, low, high, what(key)));
    return static_cast<int>(value);
  }
  /// The number at a place.
  Result<int> number(size_t at, std::string_view name) const {
    IBCOLL_ASSIGN(const int64_t value, parse_integer(numbers[at], 1, 1 << 28, what(name)));
    return static_cast<int>(value);
  }
};

/// "4x4x8".
Result<std::vector<int>> parse_sides(const Spec& spec, std::string_view text) {
  std::vector<int> sides;
  for (const std::string_view part : split(text, 'x')) {
    IBCOLL_ASSIGN(const int64_t side, parse_integer(part, 1, 1 << 28, spec.what("side")));
    sides.push_back(static_cast<int>(side));
  }
  return sides;
}

Result<Fabric> make_single_switch(const Spec& spec) {
  IBCOLL_ASSIGN(const int hosts, spec.number(0, "hosts"));
  return single_switch(hosts, spec.speeds);
}

Result<Fabric> make_k_ary_n_tree(const Spec& spec) {
  IBCOLL_ASSIGN(const int k, spec.number(0, "k"));
  IBCOLL_ASSIGN(const int n, spec.number(1, "n"));
  IBCOLL_ASSIGN(const int taper, spec.integer("taper", 1, 1 << 16, 1));
  return k_ary_n_tree(k, n, taper, spec.speeds);
}

Result<Fabric> make_xgft(const Spec& spec) {
  const auto parts = split(spec.numbers[0], '/');
  if (parts.size() != 2 && parts.size() != 3) {
    return fail(ErrorCode::kInvalidArgument,
                "network \"{}\": expected children/parents or children/parents/cables, "
                "like xgft:4x4x8/1x4x4",
                spec.text);
  }
  FatTree tree;
  IBCOLL_ASSIGN(tree.children, parse_sides(spec, parts[0]));
  IBCOLL_ASSIGN(tree.parents, parse_sides(spec, parts[1]));
  if (parts.size() == 3) {
    IBCOLL_ASSIGN(tree.cables, parse_sides(spec, parts[2]));
  }
  IBCOLL_ASSIGN(tree.hosts, spec.integer("hosts", 1, 1 << 28, 0));
  return fat_tree(tree, spec.speeds);
}

Result<Fabric> make_tree(const Spec& spec) {
  FatTree tree;
  IBCOLL_ASSIGN(tree.children, parse_sides(spec, spec.numbers[0]));
  tree.parents.assign(tree.children.size(), 1);
  IBCOLL_ASSIGN(tree.hosts, spec.integer("hosts", 1, 1 << 28, 0));
  return fat_tree(tree, spec.speeds);
}

Result<Fabric> make_grid(const Spec& spec, bool torus) {
  IBCOLL_ASSIGN(const std::vector<int> sides, parse_sides(spec, spec.numbers[0]));
  IBCOLL_ASSIGN(const int hosts, spec.integer("hosts-per-switch", 1, 1 << 15, 1));
  return grid_fabric(sides, torus, hosts, spec.speeds);
}

Result<Fabric> make_dragonfly(const Spec& spec) {
  Dragonfly shape;
  IBCOLL_ASSIGN(shape.hosts, spec.number(0, "hosts a switch"));
  IBCOLL_ASSIGN(shape.routers, spec.number(1, "switches a group"));
  IBCOLL_ASSIGN(shape.globals, spec.number(2, "global cables a switch"));
  IBCOLL_ASSIGN(shape.groups, spec.integer("groups", 1, 1 << 28, 0));
  return dragonfly(shape, spec.speeds);
}

Result<Fabric> make_wan(const Spec& spec) {
  std::vector<Cluster> clusters;
  for (size_t i = 0; i < spec.numbers.size(); ++i) {
    IBCOLL_ASSIGN(const int hosts, spec.number(i, "hosts of a cluster"));
    const auto& trunks = spec.speeds.trunks;
    clusters.push_back(
        {fmt::format("c{}", i), hosts, spec.speeds.bandwidth, 1,
         trunks.empty() ? spec.speeds.bandwidth : trunks[std::min(i, trunks.size() - 1)]});
  }
  return clusters_fabric(std::string(spec.text), clusters, spec.speeds);
}

Result<Fabric> make_twelve_clusters(const Spec& spec) {
  IBCOLL_ASSIGN(const int count, spec.number(0, "clusters"));
  if (count > 12) {
    return fail(ErrorCode::kInvalidArgument, "{} is {}: at most 12", spec.what("clusters"), count);
  }
  for (const char* key : {"bandwidth", "trunk-bandwidth"}) {
    if (spec.keys.count(key) != 0) {
      return fail(ErrorCode::kInvalidArgument, "{}: these clusters have their own", spec.what(key));
    }
  }
  LinkSpeeds speeds = spec.speeds;
  if (spec.keys.count("latency") == 0) speeds.latency_ns = 10'000;
  if (spec.keys.count("long-latency") == 0) speeds.long_latency_ns = 5'000'000;
  return clusters_fabric(fmt::format("twelve-clusters:{}", count), twelve_clusters(count), speeds);
}

Result<Fabric> make_random_tree(const Spec& spec) {
  IBCOLL_ASSIGN(const int hosts, spec.number(0, "hosts"));
  IBCOLL_ASSIGN(const int switches, spec.number(1, "switches"));
  IBCOLL_ASSIGN(const int seed, spec.integer("seed", 0, 1 << 30, 1));
  return random_tree(hosts, switches, static_cast<uint64_t>(seed), spec.speeds);
}

struct Kind {
  std::string_view name;
  size_t numbers;                      ///< how many stand before the keys; 0: any number
  std::vector<std::string_view> keys;  ///< besides those of all kinds
  std::string_view usage;
  std::function<Result<Fabric>(const Spec&)> make;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"single-switch", 1, {}, "single-switch:24            hosts", make_single_switch},
      {"fat-tree",
       2,
       {"taper"},
       "fat-tree:8,3[,taper=2]      k-ary n-tree; 2:1 tapered at the hosts' switches",
       make_k_ary_n_tree},
      {"xgft",
       1,
       {"hosts"},
       "xgft:4x4x8/1x4x4[/1x1x2]    children/parents[/cables] of each level, hosts first",
       make_xgft},
      {"tree",
       1,
       {"hosts"},
       "tree:14x5[,hosts=64]        hosts a switch, switches a switch above, ...",
       make_tree},
      {"torus",
       1,
       {"hosts-per-switch"},
       "torus:16x16x16              any sides",
       [](const Spec& spec) { return make_grid(spec, true); }},
      {"mesh",
       1,
       {"hosts-per-switch"},
       "mesh:5x7                    any sides",
       [](const Spec& spec) { return make_grid(spec, false); }},
      {"dragonfly",
       3,
       {"groups"},
       "dragonfly:4,8,4[,groups=9]  hosts a switch, switches a group, global cables a switch",
       make_dragonfly},
      {"wan", 0, {}, "wan:32,32                   clusters of so many hosts", make_wan},
      {"twelve-clusters",
       1,
       {},
       "twelve-clusters:12          the first of twelve real clusters (157 hosts) over a WAN",
       make_twelve_clusters},
      {"random-tree", 2, {"seed"}, "random-tree:64,10[,seed=1]  hosts, switches", make_random_tree},
  };
  return kKinds;
}

std::string kind_names() {
  std::string names;
  for (const Kind& kind : kinds())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return names;
}

/// What stands behind the path of a file.
struct FileSpec {
  std::string tables;
  ReadOptions options;
};

/// Fills speeds from the keys that all kinds know.
Status read_speeds(Spec& spec) {
  for (const auto& [key, value] : spec.keys) {
    const auto in_spec = [where = spec.what(key)](const Error& error) {
      return fail(ErrorCode::kInvalidArgument, "{}: {}", where, error.message);
    };
    if (key == "bandwidth" || key == "trunk-bandwidth") {
      std::vector<double> rates;
      for (const std::string_view part : split(value, ':')) {
        const auto rate = parse_rate(part);
        if (!rate) return in_spec(rate.error());
        if (*rate < 1 || *rate > 1e15) {
          return fail(ErrorCode::kInvalidArgument, "{} is {}: 1B/s to 1000000GB/s", spec.what(key),
                      part);
        }
        rates.push_back(*rate);
      }
      if (rates.empty() || (key == "bandwidth" && rates.size() > 1)) {
        return fail(ErrorCode::kInvalidArgument, "{}: '{}' is not one rate", spec.what(key), value);
      }
      if (key == "bandwidth") spec.speeds.bandwidth = rates[0];
      if (key == "trunk-bandwidth") spec.speeds.trunks = rates;
    } else if (key == "latency" || key == "long-latency" || key == "switch-latency") {
      const auto latency = parse_duration(value);
      if (!latency) return in_spec(latency.error());
      if (*latency > 10'000'000'000) {
        return fail(ErrorCode::kInvalidArgument, "{} is {}: at most 10s", spec.what(key), value);
      }
      if (key == "latency") spec.speeds.latency_ns = *latency;
      if (key == "long-latency") spec.speeds.long_latency_ns = *latency;
      if (key == "switch-latency") spec.speeds.switch_latency_ns = *latency;
    }
  }
  if (spec.keys.count("long-latency") == 0) spec.speeds.long_latency_ns = spec.speeds.latency_ns;
  return {};
}

Result<FileSpec> parse_file_spec(std::string_view text,
                                 const std::vector<std::string_view>& parts) {
  FileSpec file;
  Spec spec{text, {}, {}, {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    const std::string_view key = parts[i].substr(0, equals);
    if (equals == std::string_view::npos ||
        (key != "routes" && key != "bandwidth" && key != "trunk-bandwidth" && key != "latency" &&
         key != "switch-latency")) {
      return fail(
          ErrorCode::kInvalidArgument,
          "network \"{}\": '{}' is none of routes=, bandwidth=, trunk-bandwidth=, latency=, "
          "switch-latency=",
          text, parts[i]);
    }
    if (!spec.keys.emplace(key, parts[i].substr(equals + 1)).second) {
      return fail(ErrorCode::kInvalidArgument, "network \"{}\": '{}' stands twice", text, key);
    }
  }
  IBCOLL_TRY(read_speeds(spec));
  file.options.bandwidth = spec.speeds.bandwidth;
  file.options.trunks = spec.speeds.trunks;
  file.options.latency_ns = spec.speeds.latency_ns;
  if (spec.keys.count("switch-latency") != 0) {
    file.options.switch_latency_ns = spec.speeds.switch_latency_ns;
  }
  const auto tables = spec.keys.find("routes");
  if (tables != spec.keys.end()) {
    if (tables->second.empty()) {
      return fail(ErrorCode::kInvalidArgument, "network \"{}\": routes= names no file", text);
    }
    file.tables = tables->second;
  }
  return file;
}

constexpr std::string_view kCommonKeys[] = {"bandwidth", "trunk-bandwidth", "latency",
                                            "long-latency", "switch-latency"};

}  // namespace

bool looks_like_spec(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find(':'));
  return std::any_of(kinds().begin(), kinds().end(),
                     [&](const Kind& known) { return known.name == kind; });
}

Result<Fabric> parse_fabric_spec(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const Kind& known) { return known.name == name; });
  if (kind == kinds().end()) {
    return fail(ErrorCode::kInvalidArgument, "network \"{}\": unknown kind '{}', one of {}", text,
                name, kind_names());
  }
  Spec spec{text, {}, {}, {}};
  for (const std::string_view part :
       split(colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1), ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (!spec.keys.empty()) {
        return fail(ErrorCode::kInvalidArgument, "network \"{}\": '{}' is not KEY=VALUE", text,
                    part);
      }
      spec.numbers.push_back(part);
      continue;
    }
    const std::string_view key = part.substr(0, equals);
    if (std::count(std::begin(kCommonKeys), std::end(kCommonKeys), key) == 0 &&
        std::count(kind->keys.begin(), kind->keys.end(), key) == 0) {
      return fail(ErrorCode::kInvalidArgument, "network \"{}\": {} has no '{}' (like {})", text,
                  name, key, kind->usage.substr(0, kind->usage.find(' ')));
    }
    if (!spec.keys.emplace(key, part.substr(equals + 1)).second) {
      return fail(ErrorCode::kInvalidArgument, "network \"{}\": '{}' stands twice", text, key);
    }
  }
  if (spec.numbers.empty() || (kind->numbers != 0 && spec.numbers.size() != kind->numbers)) {
    return fail(ErrorCode::kInvalidArgument, "network \"{}\": expected something like {}", text,
                kind->usage.substr(0, kind->usage.find(' ')));
  }
  IBCOLL_TRY(read_speeds(spec));
  return kind->make(spec);
}

std::string spec_help() {
  std::string help;
  for (const Kind& kind : kinds()) help += fmt::format("  {}\n", kind.usage);
  return help +
         "  Behind any of them: ,bandwidth=2000MB/s (of hosts' links, and of others unless named)\n"
         "  ,trunk-bandwidth=10Gbit/s or 10Gbit/s:40Gbit/s (between switches, from the hosts up)\n"
         "  ,latency=200ns (of a link) ,switch-latency=0ns ,long-latency=5ms (global and WAN "
         "links)\n"
         "  FILE                        ibcoll's JSON, output of ibnetdiscover, Slurm's "
         "topology.conf\n"
         "  FILE,routes=FILE            ibnetdiscover's with tables of dump_fts or "
         "opensm-lfts.dump\n"
         "  live[:mlx5_0]               the InfiniBand subnet of this machine\n"
         "  Behind a file: ,bandwidth= ,trunk-bandwidth= ,latency= where it has none, "
         ",switch-latency=\n";
}

Result<Fabric> open_fabric(const std::string& text) {
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "an empty name of a network");
  std::vector<std::string_view> parts = split(text, ',');
  std::string_view path = parts[0];
  if (path == "live" || path.rfind("live:", 0) == 0) {
    IBCOLL_ASSIGN(const FileSpec spec, parse_file_spec(text, parts));
    if (!spec.tables.empty()) {
      return fail(ErrorCode::kInvalidArgument, "network \"{}\": a live fabric has its own routes",
                  text);
    }
    return discover(std::string(path.substr(std::min<size_t>(path.size(), 5))), spec.options);
  }
  if (looks_like_spec(path)) return parse_fabric_spec(text);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return fail(ErrorCode::kInvalidArgument,
                "network \"{}\": neither a file nor one of {} (like single-switch:24), nor live",
                text, kind_names());
  }
  IBCOLL_ASSIGN(const FileSpec spec, parse_file_spec(text, parts));
  return read_fabric_file(std::string(path), spec.tables, spec.options);
}

}  // namespace ibcoll::topology
