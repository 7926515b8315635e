#include "studies/mapping/patterns.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>
#include <utility>

#include "engine/base/units.h"
#include "studies/mapping/grid.h"

namespace ibcoll::topology {
namespace {

/// Largest number of entries a generator makes: more is no sparse matrix.
constexpr int64_t kMaxPairs = int64_t{1} << 26;

Status check_pairs(const char* pattern, int64_t pairs) {
  if (pairs <= kMaxPairs) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: {} pairs, more than {}", pattern, pairs, kMaxPairs);
}

/// Even in [0, 1) and the same on every standard library.
double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

int below(std::mt19937_64& random, int limit) { return static_cast<int>(unit(random) * limit); }

}  // namespace

Result<CommMatrix> bruck_allgather(int tasks, double block) {
  std::vector<Flow> flows;
  for (int64_t step = 1; step < tasks; step *= 2) {
    const double bytes = block * static_cast<double>(std::min(step, tasks - step));
    for (int task = 0; task < tasks; ++task) {
      flows.push_back({task, static_cast<int>((task + step) % tasks), bytes});
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

Result<CommMatrix> stencil(const std::vector<int>& sides, bool periodic, double bytes) {
  IBCOLL_ASSIGN(const Grid grid, Grid::create(sides, periodic));
  std::vector<Flow> flows;
  for (int task = 0; task < grid.nodes(); ++task) {
    std::vector<int> at;
    for (int d = 0; d < grid.dimensions(); ++d) at.push_back(grid.coordinate(task, d));
    for (int d = 0; d < grid.dimensions(); ++d) {
      std::vector<int> next = at;
      if (++next[d] == grid.side(d)) {
        if (!periodic || grid.side(d) == 2) continue;  // in a ring of two both ways are one pair
        next[d] = 0;
      }
      const int peer = grid.node_at(next);
      flows.push_back({task, peer, bytes});
      flows.push_back({peer, task, bytes});
    }
  }
  return CommMatrix::from_flows(grid.nodes(), std::move(flows));
}

Result<CommMatrix> fft_transposes(int rows, int columns, double bytes) {
  IBCOLL_TRY(check_pairs("fft", int64_t{rows} * columns * (rows + columns)));
  std::vector<Flow> flows;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const int task = row * columns + column;
      for (int c = 0; c < columns; ++c) flows.push_back({task, row * columns + c, bytes});
      for (int r = 0; r < rows; ++r) flows.push_back({task, r * columns + column, bytes});
    }
  }
  return CommMatrix::from_flows(rows * columns, std::move(flows));
}

Result<CommMatrix> butterfly(int tasks, double bytes) {
  if (tasks < 1 || (tasks & (tasks - 1)) != 0) {
    return fail(ErrorCode::kInvalidArgument, "butterfly: {} tasks is not a power of two", tasks);
  }
  std::vector<Flow> flows;
  for (int64_t bit = 1; bit < tasks; bit *= 2) {
    for (int task = 0; task < tasks; ++task) {
      flows.push_back({task, task ^ static_cast<int>(bit), bytes});
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

Result<CommMatrix> cliques(int tasks, int clique, double bytes) {
  if (clique < 1 || clique > tasks) {
    return fail(ErrorCode::kInvalidArgument, "cliques: groups of {}, must be 1 to {}", clique,
                tasks);
  }
  IBCOLL_TRY(check_pairs("cliques", int64_t{tasks} * clique));
  std::vector<Flow> flows;
  for (int task = 0; task < tasks; ++task) {
    const int first = task - task % clique;
    for (int peer = first; peer < std::min(first + clique, tasks); ++peer) {
      flows.push_back({task, peer, bytes});
    }
    if (task == first) {
      const int next = first + clique < tasks ? first + clique : 0;
      flows.push_back({task, next, bytes / 8});
      flows.push_back({next, task, bytes / 8});
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

Result<CommMatrix> random_sparse(int tasks, int degree, uint64_t seed) {
  if (degree < 0 || degree >= tasks) {
    return fail(ErrorCode::kInvalidArgument, "random: degree {}, must be 0 to {}", degree,
                tasks - 1);
  }
  IBCOLL_TRY(check_pairs("random", int64_t{tasks} * degree));
  std::mt19937_64 random(seed);
  std::vector<Flow> flows;
  std::vector<int> peers;
  for (int task = 0; task < tasks; ++task) {
    peers.assign(1, task);
    while (static_cast<int>(peers.size()) <= degree) {
      const int peer = below(random, tasks);
      if (std::find(peers.begin(), peers.end(), peer) != peers.end()) continue;
      peers.push_back(peer);
      flows.push_back({task, peer, 1.0 + below(random, 65536)});
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

Result<CommMatrix> random_geometric(int tasks, double degree, uint64_t seed) {
  if (!(degree >= 0) || degree >= tasks) {
    return fail(ErrorCode::kInvalidArgument, "geometric: degree {}, must be 0 to {}", degree,
                tasks - 1);
  }
  IBCOLL_TRY(check_pairs("geometric", static_cast<int64_t>(tasks * degree)));
  std::mt19937_64 random(seed);
  std::vector<std::pair<double, double>> points(tasks);
  for (auto& [x, y] : points) {
    x = unit(random);
    y = unit(random);
  }
  std::sort(points.begin(), points.end());
  const double radius = std::sqrt(degree / (tasks * std::numbers::pi));
  std::vector<int> name(tasks);
  std::iota(name.begin(), name.end(), 0);
  for (int i = tasks - 1; i > 0; --i) std::swap(name[i], name[below(random, i + 1)]);
  std::vector<Flow> flows;
  for (int a = 0; a < tasks; ++a) {
    for (int b = a + 1; b < tasks && points[b].first - points[a].first < radius; ++b) {
      const double distance =
          std::hypot(points[b].first - points[a].first, points[b].second - points[a].second);
      if (distance >= radius) continue;
      const double bytes = std::max(1.0, std::floor(65536 * (1 - distance / radius)));
      flows.push_back({name[a], name[b], bytes});
      flows.push_back({name[b], name[a], bytes});
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

Result<CommMatrix> power_law(int tasks, int links, uint64_t seed) {
  if (links < 1 || links >= tasks) {
    return fail(ErrorCode::kInvalidArgument, "powerlaw: {} links a task, must be 1 to {}", links,
                tasks - 1);
  }
  IBCOLL_TRY(check_pairs("powerlaw", int64_t{tasks} * links * 2));
  std::mt19937_64 random(seed);
  std::vector<Flow> flows;
  std::vector<int> ends;  // each task as often as it has links
  for (int task = 1; task < tasks; ++task) {
    std::vector<int> peers;
    while (static_cast<int>(peers.size()) < std::min(links, task)) {
      const int peer = task <= links ? static_cast<int>(peers.size())
                                     : ends[below(random, static_cast<int>(ends.size()))];
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
    }
    for (const int peer : peers) {
      ends.push_back(task);
      ends.push_back(peer);
      flows.push_back({task, peer, 65536});
      flows.push_back({peer, task, 65536});
    }
  }
  return CommMatrix::from_flows(tasks, std::move(flows));
}

namespace {

/// The part of a pattern behind its name: numbers between colons, with optional ones at the end.
class Arguments {
 public:
  Arguments(std::string_view name, std::string_view text) : name_(name) {
    if (!text.empty()) parts_ = split(text, ':');
  }

  Result<int> integer(size_t index, int low, int high, int otherwise) const {
    if (index >= parts_.size()) return otherwise;
    IBCOLL_ASSIGN(const int64_t value,
                  parse_integer(parts_[index], low, high, fmt::format("pattern {}", name_)));
    return static_cast<int>(value);
  }
  Result<int> tasks() const {
    if (parts_.empty()) {
      return fail(ErrorCode::kInvalidArgument, "pattern {}: how many tasks? e.g. {}:64", name_,
                  name_);
    }
    return integer(0, 1, CommMatrix::kMaxTasks, 0);
  }
  Result<double> bytes(size_t index, double otherwise) const {
    if (index >= parts_.size()) return otherwise;
    IBCOLL_ASSIGN(const int64_t value, parse_size(parts_[index]));
    return static_cast<double>(value);
  }
  Result<std::vector<int>> sides() const {
    if (parts_.empty()) {
      return fail(ErrorCode::kInvalidArgument, "pattern {}: which sides? e.g. {}:8x8", name_,
                  name_);
    }
    std::vector<int> sides;
    for (const std::string_view part : split(parts_[0], 'x')) {
      IBCOLL_ASSIGN(const int64_t side, parse_integer(part, 1, CommMatrix::kMaxTasks,
                                                      fmt::format("side of pattern {}", name_)));
      sides.push_back(static_cast<int>(side));
    }
    return sides;
  }
  Result<char> letter(size_t index, char otherwise) const {
    if (index >= parts_.size()) return otherwise;
    if (parts_[index].size() != 1) {
      return fail(ErrorCode::kInvalidArgument, "pattern {}: class '{}' is not one letter", name_,
                  parts_[index]);
    }
    return parts_[index][0];
  }
  Status at_most(size_t count) const {
    if (parts_.size() <= count) return {};
    return fail(ErrorCode::kInvalidArgument, "pattern {}: {} arguments, at most {}", name_,
                parts_.size(), count);
  }

 private:
  std::string_view name_;
  std::vector<std::string_view> parts_;
};

struct Pattern {
  const char* name;
  const char* arguments;
  const char* help;
  size_t most;  ///< arguments it takes
  Result<CommMatrix> (*make)(const Arguments&, uint64_t seed);
};

Result<CommMatrix> make_stencil(const Arguments& arguments, bool periodic) {
  IBCOLL_ASSIGN(const std::vector<int> sides, arguments.sides());
  IBCOLL_ASSIGN(const double bytes, arguments.bytes(1, 65536));
  return stencil(sides, periodic, bytes);
}

const Pattern kPatterns[] = {
    {"bruck", "TASKS[:BLOCK]", "Bruck allgather of blocks (2K)", 2,
     [](const Arguments& arguments, uint64_t) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const double block, arguments.bytes(1, 2048));
       return bruck_allgather(tasks, block);
     }},
    {"stencil", "AxBxC[:BYTES]", "nearest neighbours on a grid (64K each way)", 2,
     [](const Arguments& arguments, uint64_t) { return make_stencil(arguments, false); }},
    {"periodic", "AxBxC[:BYTES]", "the same with its ends joined", 2,
     [](const Arguments& arguments, uint64_t) { return make_stencil(arguments, true); }},
    {"fft", "ROWSxCOLUMNS[:BYTES]", "alltoall in each row and column (4K a pair)", 2,
     [](const Arguments& arguments, uint64_t) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const std::vector<int> sides, arguments.sides());
       if (sides.size() != 2) {
         return fail(ErrorCode::kInvalidArgument, "pattern fft: {} sides, must be 2", sides.size());
       }
       IBCOLL_ASSIGN(const double bytes, arguments.bytes(1, 4096));
       return fft_transposes(sides[0], sides[1], bytes);
     }},
    {"cg", "TASKS[:CLASS]", "NPB CG, one outer iteration (class B)", 2,
     [](const Arguments& arguments, uint64_t) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const char problem, arguments.letter(1, 'B'));
       return npb_cg(tasks, problem);
     }},
    {"sp", "TASKS[:CLASS]", "NPB SP, one time step (class B)", 2,
     [](const Arguments& arguments, uint64_t) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const char problem, arguments.letter(1, 'B'));
       return npb_sp(tasks, problem);
     }},
    {"butterfly", "TASKS[:BYTES]", "recursive doubling (64K a message)", 2,
     [](const Arguments& arguments, uint64_t) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const double bytes, arguments.bytes(1, 65536));
       return butterfly(tasks, bytes);
     }},
    {"cliques", "TASKS[:SIZE[:BYTES]]", "groups of SIZE (8) that exchange 64K a pair", 3,
     [](const Arguments& arguments, uint64_t) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const int clique, arguments.integer(1, 1, tasks, std::min(8, tasks)));
       IBCOLL_ASSIGN(const double bytes, arguments.bytes(2, 65536));
       return cliques(tasks, clique, bytes);
     }},
    {"random", "TASKS[:DEGREE]", "DEGREE (8) random peers a task", 2,
     [](const Arguments& arguments, uint64_t seed) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const int degree, arguments.integer(1, 0, tasks - 1, std::min(8, tasks - 1)));
       return random_sparse(tasks, degree, seed);
     }},
    {"geometric", "TASKS[:DEGREE]", "near points of the unit square, DEGREE (8) on average", 2,
     [](const Arguments& arguments, uint64_t seed) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const int degree, arguments.integer(1, 0, tasks - 1, std::min(8, tasks - 1)));
       return random_geometric(tasks, degree, seed);
     }},
    {"powerlaw", "TASKS[:LINKS]", "preferential attachment, LINKS (4) a new task", 2,
     [](const Arguments& arguments, uint64_t seed) -> Result<CommMatrix> {
       IBCOLL_ASSIGN(const int tasks, arguments.tasks());
       IBCOLL_ASSIGN(const int links, arguments.integer(1, 1, tasks - 1, std::min(4, tasks - 1)));
       return power_law(tasks, links, seed);
     }},
};

}  // namespace

Result<CommMatrix> parse_pattern(std::string_view text, uint64_t seed) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const Pattern& pattern : kPatterns) {
    if (name != pattern.name) continue;
    const Arguments arguments(
        name, colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
    IBCOLL_TRY(arguments.at_most(pattern.most));
    return pattern.make(arguments, seed);
  }
  std::string known;
  for (const Pattern& pattern : kPatterns) known += fmt::format(" {}", pattern.name);
  return fail(ErrorCode::kInvalidArgument, "unknown pattern \"{}\"; there are:{}", name, known);
}

std::string pattern_help() {
  std::string help;
  for (const Pattern& pattern : kPatterns) {
    help += fmt::format("  {:<34}{}\n", fmt::format("{}:{}", pattern.name, pattern.arguments),
                        pattern.help);
  }
  return help;
}

}  // namespace ibcoll::topology
