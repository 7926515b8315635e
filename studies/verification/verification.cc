#include "studies/verification/verification.h"

#include <numeric>
#include <string>

#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/planner/contention_free/plan_store.h"
#include "studies/verification/link_sharing.h"

namespace ibcoll {
namespace {

bool is_planned(const VerificationSettings& settings, const Algorithm& algorithm) {
  return settings.fabric && algorithm.spec->planned && settings.shape.servers() > 1 &&
         !(algorithm.collective == Collective::kReduce && settings.options.ordered);
}

/// Makes the plan that the algorithm carries out on the network, if there is one.
Status plan_for_network(const Algorithm& algorithm, bool tokens_ahead,
                        VerificationSettings& settings) {
  contention_free::PlanStore plans(*settings.fabric, {.tokens_ahead = tokens_ahead});
  IBCOLL_ASSIGN(settings.options.plan,
                plans.find(algorithm.collective, settings.shape, settings.hosts(),
                           settings.options.root, settings.block_bytes));
  return {};
}

/// What the puts of a schedule do to the links of the network.
struct LinkProof {
  std::optional<LinkSharing> sharing;                       ///< without a clock
  std::optional<contention_free::PlanStore::Proof> timing;  ///< of tokens sent ahead
};

nlohmann::ordered_json to_json(const VerificationSettings& settings, const RankProgram& any,
                               bool paced, const ScheduleReport& report, const LinkProof& links) {
  nlohmann::ordered_json json = {{"collective", to_string(any.collective)},
                                 {"algorithm", any.algorithm},
                                 {"layout", settings.shape.describe()},
                                 {"ranks", settings.shape.ranks()},
                                 {"servers", settings.shape.servers()},
                                 {"pacing", paced ? to_string(settings.options.pacing) : "none"},
                                 {"root", any.root},
                                 {"paced", report.paced},
                                 {"witness", report.witness},
                                 {"steps", report.steps},
                                 {"net_messages_per_rank", report.net_messages},
                                 {"net_blocks_per_rank", report.net_blocks},
                                 {"net_tokens_per_rank", report.net_tokens},
                                 {"local_messages_per_rank", report.local_messages},
                                 {"local_blocks_per_rank", report.local_blocks},
                                 {"copied_blocks_per_rank", report.copied_blocks},
                                 {"combined_blocks_per_rank", report.combined_blocks},
                                 {"scratch_slots", report.scratch_slots},
                                 {"operations", report.operations},
                                 {"program_bytes", report.memory_bytes}};
  if (links.sharing) {
    json["network"] = settings.fabric->name();
    json["network_holds"] = links.sharing->holds;
    json["network_witness"] = links.sharing->witness;
    json["network_small"] = links.sharing->small;
    json["network_puts"] = links.sharing->puts;
  }
  if (links.timing) {
    json["tokens"] = "ahead";
    json["network"] = settings.fabric->name();
    json["network_holds"] = true;  // or there would be an error
    json["network_jitter_us"] = static_cast<double>(links.timing->jitter_ns) / 1e3;
    json["network_plan_us"] = static_cast<double>(links.timing->time_ns) / 1e3;
  }
  return json;
}

/// Verifies schedules and says what was found.
class Verification {
 public:
  Verification(const VerificationSettings& settings, JsonLines& json,
               const std::function<void(const std::string&)>& progress)
      : settings_(settings),
        json_(json),
        progress_(progress),
        table_({"algorithm", "steps", "messages", "blocks", "tokens", "local messages",
                "local blocks", "copied", "scratch", "pace", settings.fabric ? "links" : ""}) {}

  Status run() {
    if (settings_.loaded) {
      if (settings_.fabric) {
        IBCOLL_TRY(verify(settings_.shape, settings_.loaded->programs, settings_.pieces, &puts_));
      }
      add(*settings_.loaded->programs.front(), false, settings_.loaded->report, share_links());
    }
    for (const Algorithm* algorithm : settings_.algorithms) {
      if (!is_planned(settings_, *algorithm)) {
        IBCOLL_TRY(verify_one(*algorithm, std::nullopt));
        continue;
      }
      IBCOLL_TRY(plan_for_network(*algorithm, false, settings_));
      IBCOLL_TRY(verify_one(*algorithm, std::nullopt));
      IBCOLL_TRY(verify_ahead(*algorithm));
    }
    return report();
  }

 private:
  /// As the engine runs it: tokens sent ahead order the puts in time only.
  Status verify_ahead(const Algorithm& algorithm) {
    IBCOLL_TRY(plan_for_network(algorithm, true, settings_));
    contention_free::PlanStore plans(*settings_.fabric);
    const auto proof = plans.check(algorithm.collective, settings_.shape, settings_.hosts(),
                                   settings_.options.root, settings_.block_bytes);
    if (!proof) {
      return fail(proof.error().code, "{}, tokens ahead: {}", algorithm.name,
                  proof.error().message);
    }
    timed_ += fmt::format(
        "{}, tokens ahead: no link is asked for more than it carries in the {:.1f} us of the plan "
        "for blocks of {}, bytes being up to {:.1f} us early or late; a program's tokens go with "
        "whole pieces, of which each block has {}\n",
        algorithm.name, static_cast<double>(proof->time_ns) / 1e3,
        format_size(settings_.block_bytes), static_cast<double>(proof->jitter_ns) / 1e3,
        settings_.options.plan->pieces);
    return verify_one(algorithm, *proof);
  }

  Status verify_one(const Algorithm& algorithm,
                    std::optional<contention_free::PlanStore::Proof> timing) {
    if (progress_) progress_(fmt::format("verifying {} ...", algorithm.name));
    const Programs programs = build_all(algorithm, settings_.shape, settings_.options);
    puts_.clear();
    const bool links = settings_.fabric && !timing;
    const auto report =
        verify(settings_.shape, programs, settings_.pieces, links ? &puts_ : nullptr);
    if (progress_) progress_({});
    if (!report) {
      return fail(report.error().code, "{}: {}", algorithm.name, report.error().message);
    }
    add(*programs.front(), algorithm.paced, *report,
        timing ? LinkProof{std::nullopt, timing} : share_links());
    return {};
  }

  /// Whether puts share links of the network, if there is one.
  LinkProof share_links() const {
    if (!settings_.fabric) return {};
    return {prove_link_sharing(*settings_.fabric, settings_.shape, settings_.hosts(), puts_,
                               settings_.block_bytes),
            std::nullopt};
  }

  void add(const RankProgram& any, bool paced, const ScheduleReport& report,
           const LinkProof& links) {
    json_.write(to_json(settings_, any, paced, report, links));
    const auto& sharing = links.sharing;
    table_.add_row({links.timing ? "  tokens ahead" : any.algorithm,
                    fmt::format("{}", report.steps), fmt::format("{}", report.net_messages),
                    fmt::format("{}", report.net_blocks), fmt::format("{}", report.net_tokens),
                    fmt::format("{}", report.local_messages),
                    fmt::format("{}", report.local_blocks), fmt::format("{}", report.copied_blocks),
                    fmt::format("{}", report.scratch_slots), report.paced ? "paced" : "free",
                    links.timing             ? "in time"
                    : !sharing               ? ""
                    : !sharing->holds        ? "shared"
                    : sharing->small.empty() ? "hold"
                                             : "small"});
    if (sharing && !sharing->holds)
      shared_ += fmt::format("{}: {}\n", any.algorithm, sharing->witness);
    if (sharing) {
      for (const std::string& one : sharing->small)
        small_ += fmt::format("{}: {}\n", any.algorithm, one);
    }
    if (!report.paced && !links.timing)
      witnesses_ += fmt::format("{}: {}\n", any.algorithm, report.witness);
  }

  Status report() const {
    const Status result =
        shared_.empty()
            ? Status()
            : Status(fail(ErrorCode::kInvalidProgram,
                          "puts that nothing orders share links of {}{}", settings_.fabric->name(),
                          json_.to_stdout() ? "" : " beyond their bandwidth, see above"));
    if (json_.to_stdout()) return result;
    const auto list = [](const char* title, const std::string& lines) {
      if (!lines.empty()) print("\n{}:\n{}", title, lines);
    };
    print("{} ranks on {} servers ({}): holds. Counts of the rank with most:\n\n{}",
          settings_.shape.ranks(), settings_.shape.servers(), settings_.shape.describe(),
          table_.text());
    list("Puts into a server that nothing orders", witnesses_);
    list("Proved in time", timed_);
    list("Left in no order, being less in all than is under way on the link (bandwidth x latency)",
         small_);
    list("Puts that need more than a link carries", shared_);
    return result;
  }

  VerificationSettings settings_;
  JsonLines& json_;
  const std::function<void(const std::string&)>& progress_;
  Table table_;
  std::vector<OrderedPut> puts_;  ///< of the schedule in hand
  std::string witnesses_, timed_, small_, shared_;
};

}  // namespace

std::vector<int> VerificationSettings::hosts() const {
  std::vector<int> all(shape.servers());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Status verify_and_report(const VerificationSettings& settings, JsonLines& json,
                         const std::function<void(const std::string&)>& progress) {
  return Verification(settings, json, progress).run();
}

}  // namespace ibcoll
