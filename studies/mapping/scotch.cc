#include "studies/mapping/scotch.h"

#if __has_include(<scotch/scotch.h>)

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
// scotch.h needs FILE and leaves out its own includes.
#include <scotch/scotch.h>

#include <numeric>

#include "studies/mapping/small.h"

namespace ibcoll::topology {
namespace {

/// The functions of the library that are used, found by name.
struct Library {
  decltype(&SCOTCH_graphInit) graph_init;
  decltype(&SCOTCH_graphExit) graph_exit;
  decltype(&SCOTCH_graphBuild) graph_build;
  decltype(&SCOTCH_graphMap) graph_map;
  decltype(&SCOTCH_archInit) arch_init;
  decltype(&SCOTCH_archExit) arch_exit;
  decltype(&SCOTCH_archMeshX) arch_mesh;
  decltype(&SCOTCH_archTorusX) arch_torus;
  decltype(&SCOTCH_archTleaf) arch_tree;
  decltype(&SCOTCH_stratInit) strat_init;
  decltype(&SCOTCH_stratExit) strat_exit;
  decltype(&SCOTCH_stratGraphMapBuild) strat_build;
  decltype(&SCOTCH_randomSeed) random_seed;
  decltype(&SCOTCH_randomReset) random_reset;
};

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

Result<Library> load() {
  // The error library must be there before the one that calls it.
  void* errors = dlopen("libscotcherr.so", RTLD_NOW | RTLD_GLOBAL);
  if (errors == nullptr) errors = dlopen("libscotcherr-7.0.so", RTLD_NOW | RTLD_GLOBAL);
  void* handle = dlopen("libscotch.so", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) handle = dlopen("libscotch-7.0.so", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::kUnsupported, "Scotch can't be loaded: {}", dlerror());
  Library library;
  const bool complete = find(handle, "SCOTCH_graphInit", library.graph_init) &&
                        find(handle, "SCOTCH_graphExit", library.graph_exit) &&
                        find(handle, "SCOTCH_graphBuild", library.graph_build) &&
                        find(handle, "SCOTCH_graphMap", library.graph_map) &&
                        find(handle, "SCOTCH_archInit", library.arch_init) &&
                        find(handle, "SCOTCH_archExit", library.arch_exit) &&
                        find(handle, "SCOTCH_archMeshX", library.arch_mesh) &&
                        find(handle, "SCOTCH_archTorusX", library.arch_torus) &&
                        find(handle, "SCOTCH_archTleaf", library.arch_tree) &&
                        find(handle, "SCOTCH_stratInit", library.strat_init) &&
                        find(handle, "SCOTCH_stratExit", library.strat_exit) &&
                        find(handle, "SCOTCH_stratGraphMapBuild", library.strat_build) &&
                        find(handle, "SCOTCH_randomSeed", library.random_seed) &&
                        find(handle, "SCOTCH_randomReset", library.random_reset);
  if (!complete)
    return fail(ErrorCode::kUnsupported, "this libscotch lacks a function: {}", dlerror());
  return library;
}

/// Moves tasks off nodes that are too full or not to be used, those of least traffic first.
void make_fit(const CommMatrix& matrix, const Network& network, const Room& room,
              Placement& placement) {
  std::vector<double> traffic(matrix.tasks(), 0);
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task)) traffic[task] += edge.bytes;
  }
  std::vector<int> order(matrix.tasks());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return traffic[a] > traffic[b]; });
  std::vector<int> free(node_count(network));
  for (size_t node = 0; node < free.size(); ++node) {
    free[node] = room.allows(static_cast<int>(node)) ? room.per_node : 0;
  }
  std::vector<int> homeless;
  for (const int task : order) {
    if (free[placement[task]] > 0) {
      --free[placement[task]];
    } else {
      homeless.push_back(task);
    }
  }
  std::visit(
      [&](const auto& paths) {
        for (const int task : homeless) {
          const int here = placement[task];
          int best = -1;
          for (int node = 0; node < paths.nodes(); ++node) {
            if (free[node] > 0 &&
                (best < 0 || paths.distance(here, node) < paths.distance(here, best)))
              best = node;
          }
          placement[task] = best;
          --free[best];
        }
      },
      network);
}

/// Tells Scotch of a network, which is no table of routes; what its functions return.
int build(const Library& library, const Network& network, SCOTCH_Arch& arch) {
  if (const Grid* grid = std::get_if<Grid>(&network)) {
    std::vector<SCOTCH_Num> sides(grid->sides().begin(), grid->sides().end());
    const auto dimensions = static_cast<SCOTCH_Num>(sides.size());
    return grid->torus() ? library.arch_torus(&arch, dimensions, sides.data())
                         : library.arch_mesh(&arch, dimensions, sides.data());
  }
  // Scotch begins with the largest groups.
  const Hierarchy& hierarchy = std::get<Hierarchy>(network);
  std::vector<SCOTCH_Num> members, distances;
  for (int level = hierarchy.levels() - 1; level >= 0; --level) {
    members.push_back(hierarchy.members(level));
    distances.push_back(hierarchy.distance_at(level));
  }
  return library.arch_tree(&arch, hierarchy.levels(), members.data(), distances.data());
}

}  // namespace

Result<Placement> scotch_map(const CommMatrix& matrix, const Network& network, const Room& room,
                             const ScotchOptions& options) {
  IBCOLL_TRY(check_room(room, network, matrix.tasks()));
  if (std::holds_alternative<RoutedNetwork>(network)) {
    return fail(ErrorCode::kUnsupported,
                "Scotch is asked about meshes, tori and hierarchies only, not {}",
                network_name(network));
  }
  IBCOLL_ASSIGN(const Library library, load());
  // Scotch takes whole weights; scale so that their sum stays far from overflow.
  const double scale = std::min(1.0, 1e8 / std::max(1.0, matrix.total_bytes()));
  std::vector<SCOTCH_Num> start{0}, ends, weights;
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task)) {
      ends.push_back(edge.task);
      weights.push_back(std::max<SCOTCH_Num>(1, std::lround(edge.bytes * scale)));
    }
    start.push_back(static_cast<SCOTCH_Num>(ends.size()));
  }
  SCOTCH_Graph graph;
  SCOTCH_Arch arch;
  library.graph_init(&graph);
  library.arch_init(&arch);
  const int built = library.graph_build(&graph, 0, matrix.tasks(), start.data(), start.data() + 1,
                                        nullptr, nullptr, static_cast<SCOTCH_Num>(ends.size()),
                                        ends.data(), weights.data()) |
                    build(library, network, arch);
  const SCOTCH_Num strategies[] = {
      SCOTCH_STRATDEFAULT, SCOTCH_STRATQUALITY,   SCOTCH_STRATSPEED,      SCOTCH_STRATBALANCE,
      SCOTCH_STRATSAFETY,  SCOTCH_STRATRECURSIVE, SCOTCH_STRATSCALABILITY};
  // How much more than an even share the fullest node may take.
  const double places = usable_slots(network, room);
  const double slack = std::max(0.0, places / std::max(1, matrix.tasks()) - 1);
  Placement best;
  double best_value = 0;
  library.random_seed(static_cast<SCOTCH_Num>(options.seed));
  library.random_reset();
  const Stopwatch watch(options.clock);
  const auto in_time = [&] { return watch.seconds() < options.seconds; };
  for (size_t run = 0; built == 0 && (run < std::size(strategies) || in_time()); ++run) {
    SCOTCH_Strat strategy;
    library.strat_init(&strategy);
    std::vector<SCOTCH_Num> part(matrix.tasks(), 0);
    const bool done = library.strat_build(&strategy, strategies[run % std::size(strategies)],
                                          node_count(network), slack) == 0 &&
                      library.graph_map(&graph, &arch, &strategy, part.data()) == 0;
    library.strat_exit(&strategy);
    if (!done) continue;
    Placement placement(part.begin(), part.end());
    make_fit(matrix, network, room, placement);
    const double value = goal_value(options.goal, evaluate(matrix, network, placement));
    if (best.empty() || value < best_value) {
      best_value = value;
      best = std::move(placement);
    }
  }
  library.arch_exit(&arch);
  library.graph_exit(&graph);
  if (best.empty()) return fail(ErrorCode::kInternal, "Scotch made no mapping");
  return best;
}

}  // namespace ibcoll::topology

#else

namespace ibcoll::topology {

Result<Placement> scotch_map(const CommMatrix&, const Network&, const Room&, const ScotchOptions&) {
  return fail(ErrorCode::kUnsupported, "built without Scotch (libscotch-dev)");
}

}  // namespace ibcoll::topology

#endif
