#pragma once
/// What ib_tune is asked for.

#include <string>

#include "engine/base/result.h"
#include "studies/measure/tuning.h"
#include "tools/frame/command_line.h"
#include "tools/frame/job.h"

namespace ibcoll::tools {

/// The command line as it was typed.
struct TuneArguments {
  JobArguments job;
  std::string collectives = "all", sizes = "8,64,512,4K,32K,256K,1M";
  std::string batch = "500us", budget = "60s", out, verify, built_in, logp, json;
  int rounds = 50;
  bool simulate = false;
};

void add_options(Command app, TuneArguments& a);

/// What is to be measured; `judged` is still to be read.
Result<measure::TuneSettings> understand_tuning(const TuneArguments& a);

/// As rules name it: without the patch level.
std::string engine_version();

/// Writes the rules that the engine's own choices for a layout amount to.
Status write_built_in(const TuneArguments& a);

/// Of the sections of rules, the one to judge: the first that fits the job, else the first for its
/// layout. Fails where there is none. `note`: what differs where it does not fit.
Result<RuleSection> section_to_judge(const std::string& path, const RulesJob& job,
                                     std::string& note);

}  // namespace ibcoll::tools
