#include "engine/core/context_options.h"

#include "engine/base/config.h"
#include "engine/core/server_placement.h"
#include "topology/distort.h"

namespace ibcoll {

Result<ContextOptions> ContextOptions::from_environment(int ranks) {
  IBCOLL_ASSIGN(const std::optional<Shape> shape, emulated_servers(ranks));
  return from_environment(shape);
}

Result<ContextOptions> ContextOptions::from_environment(const std::optional<Shape>& shape) {
  IBCOLL_TRY(check_environment());
  ContextOptions options;
  options.shape = shape;
  IBCOLL_ASSIGN(options.transport, config_choice("IBCOLL_TRANSPORT"));
  IBCOLL_ASSIGN(options.fabric.fabric, config_string("IBCOLL_FABRIC"));
  IBCOLL_ASSIGN(options.fabric.hosts, config_string("IBCOLL_FABRIC_HOSTS"));
  IBCOLL_ASSIGN(options.fabric.permitted, config_string("IBCOLL_FABRIC_PERMITTED"));
  IBCOLL_ASSIGN(const std::string error, config_string("IBCOLL_FABRIC_ERROR"));
  IBCOLL_ASSIGN(options.fabric.error, topology::parse_error(error, "IBCOLL_FABRIC_ERROR"));
  IBCOLL_ASSIGN(options.plan_cache, config_string("IBCOLL_PLAN_CACHE"));
  IBCOLL_ASSIGN(options.late_ns, config_duration("IBCOLL_LATE"));
  IBCOLL_ASSIGN(options.deadline_ns, config_duration("IBCOLL_DEADLINE"));
  IBCOLL_ASSIGN(const int64_t heap, config_size("IBCOLL_HEAP"));
  options.heap_bytes = static_cast<size_t>(heap);
  IBCOLL_ASSIGN(const int64_t eager, config_size("IBCOLL_EAGER"));
  options.eager_bytes = eager;
  IBCOLL_ASSIGN(options.costs, config_string("IBCOLL_COSTS"));
  IBCOLL_ASSIGN(options.learn, config_bool("IBCOLL_LEARN"));
  IBCOLL_ASSIGN(const int64_t multicast_memory, config_size("IBCOLL_MULTICAST_MEMORY"));
  options.multicast_memory = static_cast<size_t>(multicast_memory);
  IBCOLL_ASSIGN(const int64_t window, config_integer("IBCOLL_MULTICAST_WINDOW"));
  options.multicast_window = static_cast<int>(window);
  IBCOLL_ASSIGN(options.logp_file, config_string("IBCOLL_LOGP"));
  IBCOLL_ASSIGN(options.rules_file, config_string("IBCOLL_RULES"));
  IBCOLL_ASSIGN(options.rules_strict, config_bool("IBCOLL_RULES_STRICT"));
  IBCOLL_ASSIGN(options.programs, config_string("IBCOLL_PROGRAMS"));
  IBCOLL_ASSIGN(const std::string threads, config_choice("IBCOLL_THREADS"));
  options.several_threads = threads == "multiple";
  IBCOLL_ASSIGN(options.progress_thread, config_bool("IBCOLL_PROGRESS_THREAD"));
  IBCOLL_ASSIGN(const int64_t connections, config_integer("IBCOLL_MAX_CONNECTIONS"));
  options.max_connections = static_cast<uint32_t>(connections);
  IBCOLL_ASSIGN(const int64_t seed, config_integer("IBCOLL_LOOPBACK_SEED"));
  options.loopback_seed = static_cast<uint64_t>(seed);
  IBCOLL_ASSIGN(const std::string check, config_choice("IBCOLL_CHECK"));
  options.check = check == "data"   ? CheckMode::kData
                  : check == "late" ? CheckMode::kLate
                                    : CheckMode::kOff;
  return options;
}

}  // namespace ibcoll
