#pragma once
/// The command line of `machines`.

#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/shape.h"

namespace ibcoll::machines {

/// The link of a machine that goes down some time after the command has begun.
struct Cut {
  int machine = 0;
  int64_t after_ns = 0;
  std::optional<int64_t> for_ns;  ///< then it is up again
};

enum class Launcher { kOwn, kMpirun, kMpiexec, kNone };

struct Options {
  bool help = false;
  Shape shape = Shape::single_server(1);
  Launcher launcher = Launcher::kOwn;
  std::vector<Cut> cuts;
  std::string rate, delay, loss;  ///< as tc takes them; empty: none
  bool bytes = false;
  bool share_cores = false;
  std::vector<std::string> command;
};

Result<Options> parse_options(const std::vector<std::string>& words);

extern const char* const kHelp;

}  // namespace ibcoll::machines
