#pragma once
/// What a job takes of memory, reckoned before it is started: from the programs of its calls, and
/// from what each part of the engine says of itself.

#include <string>

#include "engine/base/json_lines.h"
#include "engine/base/result.h"

namespace ibcoll {

/// The command line as it was typed.
struct JobQuestion {
  std::string layout;
  std::string placement = "block";
  std::string connections = "auto";
  std::string calls = "alltoall:64K";
  std::string transport;
};

/// Prints for people unless the object goes to standard output, and writes the object.
Status report_job(const JobQuestion& question, JsonLines& json);

}  // namespace ibcoll
