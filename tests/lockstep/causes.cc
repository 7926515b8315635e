#include <fmt/format.h>

#include "tests/lockstep/model.h"

namespace ibcoll::lockstep {
namespace {

uint64_t bit(Rank rank) { return uint64_t{1} << rank; }

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// After a death ranks leave without waiting for each other, and may have the error of that.
bool leaves_after_death(const Outcome& outcome, const Faults& faults) {
  return faults.dead != 0 &&
         (has(outcome.text, "has left the job") || has(outcome.text, "ended with status 1"));
}

std::string wrong(std::string_view what, const Outcome& outcome) {
  return fmt::format("{}: status {}, scope {}, {}", what, static_cast<int>(outcome.status),
                     static_cast<int>(outcome.scope), outcome.text);
}

}  // namespace

Rank rank_named(std::string_view text, size_t& from) {
  for (from = text.find("rank ", from); from != std::string_view::npos;
       from = text.find("rank ", from)) {
    from += 5;
    size_t end = from;
    Rank rank = 0;
    for (; end < text.size() && text[end] >= '0' && text[end] <= '9' && rank < kMostRanks; ++end)
      rank = rank * 10 + (text[end] - '0');
    if (end > from && rank < kMostRanks) return rank;
  }
  return -1;
}

bool names_one_of(std::string_view text, uint64_t ranks) {
  size_t from = 0;
  for (Rank rank = rank_named(text, from); rank >= 0; rank = rank_named(text, from)) {
    if ((ranks >> rank & 1) != 0) return true;
  }
  return false;
}

Causes::Causes(const Program& program) : groups_(program.groups.size()), calls_(program.numbers) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const Rank rank : program.groups[i].members) groups_[i].members |= bit(rank);
  }
  std::vector<const Action*> calls(program.numbers, nullptr);
  const auto ends_of = [&](const Action& action) -> Ends& {
    return action.spec.on_set || action.kind == ActionKind::kMulticast ? calls_[action.number]
                                                                       : groups_[action.spec.group];
  };
  for (const Action& action : program.actions) {
    switch (action.kind) {
      case ActionKind::kDisagree:
        disagrees_ = true;
        break;
      case ActionKind::kCancelGroup:
        groups_[action.first].cancellers |= bit(action.rank);
        break;
      case ActionKind::kCancel:
        if (calls[action.call] != nullptr)
          ends_of(*calls[action.call]).cancellers |= bit(action.rank);
        break;
      case ActionKind::kMulticast:
        calls_[action.number].members = action.multicast.members | bit(action.multicast.master);
        calls_[action.number].deadline = action.multicast.deadline_us != 0;
        calls[action.number] = &action;
        break;
      case ActionKind::kCall: {
        calls[action.number] = &action;
        Ends& ends = ends_of(action);
        if (action.spec.on_set) ends.members = action.spec.set;
        if (action.spec.deadline_us != 0) ends.deadline = true;
        if (action.spec.own_operator >= 0 &&
            program.operators[static_cast<size_t>(action.spec.own_operator)].fails)
          ends.operators = true;
        break;
      }
      default:
        break;
    }
  }
}

std::string Causes::check(const Action& action, const Outcome& outcome,
                          const Faults& faults) const {
  if (outcome.scope == IBCOLL_SCOPE_JOB) return check_job(outcome, faults);
  if (action.spec.on_set || action.kind == ActionKind::kMulticast)
    return check(calls_[action.number], outcome, faults);
  return check(groups_[action.spec.group], outcome, faults);
}

std::string Causes::check_group(uint32_t group, const Outcome& outcome,
                                const Faults& faults) const {
  if (outcome.scope == IBCOLL_SCOPE_JOB) return check_job(outcome, faults);
  return check(groups_[group], outcome, faults);
}

std::string Causes::check_receive(const Outcome& outcome, const Faults& faults) const {
  if (!has(outcome.text, "nothing that it sends to sets comes any more"))
    return wrong("a receive fails for no death", outcome);
  if (faults.refused() || leaves_after_death(outcome, faults)) return {};
  if (!names_one_of(outcome.text, faults.dead)) return wrong("the dead rank is not named", outcome);
  return {};
}

std::string Causes::check(const Ends& ends, const Outcome& outcome, const Faults& faults) const {
  switch (outcome.status) {
    case IBCOLL_ERR_CANCELLED: {
      const bool by_rank = ends.cancellers != 0 && names_one_of(outcome.text, ends.cancellers) &&
                           (has(outcome.text, "cancelled"));
      const bool by_operator = ends.operators && has(outcome.text, "the operator has failed");
      if (!by_rank && !by_operator)
        return wrong("nobody has cancelled that, or its line does not name who", outcome);
      break;
    }
    case IBCOLL_ERR_DEADLINE:
      if (!ends.deadline) return wrong("there was no deadline", outcome);
      break;
    case IBCOLL_ERR_PEER_FAILED:
      // After a death ranks leave without waiting for each other, and one that was refused memory
      // leaves out what the others wait for.
      if (leaves_after_death(outcome, faults)) break;
      if (has(outcome.text, "has left the job") && faults.refused()) break;
      // Of one that has given up since; it leaves with that.
      if (has(outcome.text, "can't read") && faults.call_failed) break;
      if (has(outcome.text, "ended with status 1") && faults.refused()) break;
      // Members that have no memory for a multicast do without; after a death one that has left may
      // have died, for all that its master knows.
      if (has(outcome.text, "may lack multicast") && (faults.refused() || faults.dead != 0)) break;
      // After a death one that is gone may have died, too: nobody can tell.
      if (faults.dead != 0 && faults.refused()) break;
      if ((faults.dead & ends.members) == 0) return wrong("no member has died", outcome);
      if (!names_one_of(outcome.text, faults.dead & ends.members))
        return wrong("the dead rank is not named", outcome);
      break;
    case IBCOLL_ERR_NO_MEMORY:
      if (!faults.memory_failed) return wrong("there was enough memory", outcome);
      return {};  // whose end that is the functions say that were refused it
    default:
      return wrong("an error without a cause", outcome);
  }
  if (outcome.scope == IBCOLL_SCOPE_GROUP || outcome.scope == IBCOLL_SCOPE_CALL) return {};
  return wrong("that is not over", outcome);
}

std::string Causes::check_job(const Outcome& outcome, const Faults& faults) const {
  switch (outcome.status) {
    case IBCOLL_ERR_MISMATCH:
      // A bit may be one of the lengths that ranks tell each other first.
      if (disagrees_ || faults.flipped) return {};
      return wrong("nobody disagrees", outcome);
    case IBCOLL_ERR_PEER_FAILED:
      // The loopback is no adapter: what a stopped rank has posted goes when the rank goes on.
      if (faults.late && has(outcome.text, "has left the job")) return {};
      if (faults.refused()) return {};
      return wrong(faults.dead == 0 ? "nobody has died" : "a death ends no job", outcome);
    case IBCOLL_ERR_NO_MEMORY:
      if (faults.memory_failed || faults.flipped) return {};
      return wrong("there was enough memory", outcome);
    case IBCOLL_ERR_SYSTEM:
      if (faults.call_failed) return {};
      return wrong("no system call has failed", outcome);
    case IBCOLL_ERR_DEADLINE:
      if (faults.late) return {};
      return wrong("nobody was late", outcome);
    default:
      return wrong("the end of the job has no cause", outcome);
  }
}

}  // namespace ibcoll::lockstep
