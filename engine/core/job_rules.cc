#include "engine/core/job_rules.h"

#include <algorithm>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/bootstrap/machine_info.h"
#include "engine/core/share.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll {
namespace {

/// Of all sections that don't fit, the one with least to say comes nearest.
std::string what_differs(const std::vector<RuleSection>& sections, const RulesJob& job) {
  std::string least;
  for (const RuleSection& section : sections) {
    std::string differs = section.job.differences(job);
    const auto parts = [](const std::string& text) {
      return std::count(text.begin(), text.end(), ';');
    };
    if (least.empty() || parts(differs) < parts(least)) least = std::move(differs);
  }
  return sections.size() == 1
             ? least
             : fmt::format("{} (the nearest of {} sections)", least, sections.size());
}

/// On rank 0: the text of the section that fits; empty where none does.
Result<std::string> find_section(const std::string& path, bool strict, const RulesJob& job) {
  IBCOLL_ASSIGN(const std::vector<RuleSection> sections, read_rules(path));
  for (const RuleSection& section : sections) {
    if (!section.job.differences(job).empty()) continue;
    log().info("IBCOLL_RULES: {}: {} rules for layout {} are in force", path, section.rules.size(),
               job.layout);
    return to_text(section);
  }
  const std::string differs = what_differs(sections, job);
  if (strict)
    return fail(ErrorCode::kInput,
                "{}: no rules for this job (IBCOLL_RULES_STRICT), they are for {}", path, differs);
  log().warn("IBCOLL_RULES: {}: its rules are left out, being for {}", path, differs);
  return std::string();
}

}  // namespace

Result<RulesJob> describe_job(OpenedJob& opened) {
  RulesJob job;
  job.layout = opened.shape().describe();
  job.transport = opened.network() != nullptr ? opened.network()->name() : "shm";
  job.machines = opened.machines();
  job.processor = processor_name();
  job.processors = online_processors();
  job.engine = fmt::format("{}.{}", IBCOLL_VERSION_MAJOR, IBCOLL_VERSION_MINOR);
  std::vector<uint64_t> all(static_cast<size_t>(opened.size()));
  const uint64_t mine = mix(hash_bytes(job.processor), static_cast<uint64_t>(job.processors));
  IBCOLL_TRY(opened.bootstrap().allgather(&mine, sizeof mine, all.data()));
  if (std::all_of(all.begin(), all.end(), [&](uint64_t other) { return other == all[0]; }))
    return job;
  job.processor = "several kinds";
  job.processors = 0;
  return job;
}

Result<Rules> read_rules_for(Bootstrap& bootstrap, const std::string& path, bool strict,
                             const RulesJob& job, const Shape& shape) {
  std::string text;
  Status found;
  if (bootstrap.rank() == 0) {
    auto section = find_section(path, strict, job);
    if (section)
      text = std::move(*section);
    else
      found = fail(section.error().code, "IBCOLL_RULES: {}", section.error().message);
  }
  IBCOLL_TRY(share(bootstrap, found));
  IBCOLL_TRY(share(bootstrap, text));
  if (text.empty()) return Rules();
  IBCOLL_ASSIGN(const std::vector<RuleSection> sections, parse_rules(text));
  return Rules::create(sections.front(), shape);
}

}  // namespace ibcoll
