#pragma once
/// The `IBCOLL_*` environment variables: one row each. Everything that reads, checks, prints or
/// documents them goes by this table; docs/environment.md is made from it (`./run docs`).

#include <cstdint>
#include <string_view>

namespace ibcoll {

enum class VariableType { kBool, kInteger, kSize, kDuration, kString, kChoice };

struct Variable {
  std::string_view name;
  VariableType type;
  std::string_view default_value;  ///< as a user would write it
  std::string_view help;           ///< one sentence or two
  std::string_view choices = {};   ///< of a kChoice: the allowed values, separated by commas
  int64_t low = 0;                 ///< of a kInteger and kSize: the least allowed value
  int64_t high = INT64_MAX;        ///< and the largest
};

inline constexpr int64_t kMaxConfiguredServers = 1 << 20;

inline constexpr Variable kVariables[] = {
    {.name = "IBCOLL_LOG_LEVEL",
     .type = VariableType::kChoice,
     .default_value = "warn",
     .help = "Least important messages that are written to standard error.",
     .choices = "trace,debug,info,warn,error,critical,off"},
    {.name = "IBCOLL_SERVERS",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Splits the ranks of one machine into this many emulated servers of equal size, which "
             "exchange data only over the network; 0 leaves the servers as they are found.",
     .high = kMaxConfiguredServers},
    {.name = "IBCOLL_LAYOUT",
     .type = VariableType::kString,
     .default_value = "",
     .help = "Splits the ranks of one machine into emulated servers with these numbers of ranks: "
             "`3,1,2` or `24x8` (24 servers of 8). Goes before IBCOLL_SERVERS; empty for none."},
    {.name = "IBCOLL_PLACEMENT",
     .type = VariableType::kChoice,
     .default_value = "block",
     .help = "How ranks are placed on emulated servers: one server after the other, or in turn.",
     .choices = "block,cyclic"},
    {.name = "IBCOLL_TRANSPORT",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "What carries data between servers: `auto` takes the best there is, `shm` refuses to "
             "run on more than one server, `loopback` is software on one machine.",
     .choices = "auto,shm,loopback,verbs,ucx"},
    {.name = "IBCOLL_LATE",
     .type = VariableType::kDuration,
     .default_value = "10s",
     .help = "How long a collective waits without any progress before it names, in a warning, whom "
             "it waits for."},
    {.name = "IBCOLL_DEADLINE",
     .type = VariableType::kDuration,
     .default_value = "0",
     .help =
         "How long a collective may wait without any progress before it fails; 0 for no limit."},
    {.name = "IBCOLL_BIND",
     .type = VariableType::kChoice,
     .default_value = "core",
     .help = "Whether the launcher binds each rank to a core.",
     .choices = "none,core"},
    {.name = "IBCOLL_HEAP",
     .type = VariableType::kSize,
     .default_value = "64G",
     .help = "Address space reserved for the buffers that a rank allocates; memory is taken only "
             "as it is allocated.",
     .low = 1 << 20,
     .high = int64_t{1} << 44},
    {.name = "IBCOLL_LOOPBACK_SEED",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Makes the software loopback reorder and delay everything that InfiniBand permits, "
             "differently for each seed; 0 for off."},
};

}  // namespace ibcoll
