#include "integrations/mpi/described_call.h"

#include <fmt/format.h>

#include <string>

#include "integrations/mpi/endings.h"
#include "integrations/mpi/operations.h"

namespace ibcoll::mpi {

namespace {

Outcome report(const char* line, int code) {
  say(line);
  return Outcome::failed(code);
}

}  // namespace

bool Attempt::reports_missing() const {
  static const bool reports =
      library().Bcast(nullptr, 1, library().constants.type_byte, 0, job.alone) != 0;
  return reports;
}

Outcome Attempt::break_off(const char* line, int code) const {
  const std::string kept(line);  // it may be the engine's
  on.is_over = true;
  (void)ibcoll_group_cancel(on.group);
  keep_moving();
  learn_of_end(on, number, number + 1);
  return report(kept.c_str(), code);
}

Outcome Attempt::failed(ibcoll_status status, const char* why) const {
  const ibcoll_mpi_constants& mpi = library().constants;
  const int code = status == IBCOLL_ERR_MISMATCH ? mpi.err_truncate : mpi.err_other;
  if (why == nullptr && ibcoll_last_error_scope() == IBCOLL_SCOPE_CALL)
    return break_off(ibcoll_last_error(), code);
  // All calls that follow on the group give the error, but once is enough to say it.
  const bool said = on.is_over.exchange(true), known = job.ends;
  // Who cancels a group knows that itself.
  const bool elsewhere = known || status == IBCOLL_ERR_CANCELLED;
  on.cause_is_elsewhere = elsewhere;
  const std::string line(ibcoll_last_error());
  // After a death nobody waits for all ranks.
  if (status == IBCOLL_ERR_MISMATCH || status == IBCOLL_ERR_CANCELLED) {
    const bool ends_job = ibcoll_last_error_scope() == IBCOLL_SCOPE_JOB;
    // A blocking call that is under way meanwhile learns of it itself.
    if (form != Form::kBlocking && (number == on.calls || on.ended == on.calls))
      learn_of_end(on, elsewhere ? kNever : number, on.calls + 1);
    if (ends_job && !known) learn_of_jobs_end();
  }
  keep_moving();
  if (why != nullptr) return report(why, code);
  if (!said) return report(line.c_str(), code);
  return Outcome::failed(code);
}

namespace {

std::string unequal_text(const Attempt& attempt, Count sent, Count received) {
  return fmt::format("{}: rank {} of the communicator sends {} bytes to itself, but receives {}",
                     to_string(attempt.function), attempt.on.rank, sent, received);
}

}  // namespace

Outcome Attempt::unequal(Count sent, Count received) const {
  return break_off(unequal_text(*this, sent, received).c_str(), library().constants.err_truncate);
}

void Attempt::say_unequal(Count sent, Count received) const {
  say(unequal_text(*this, sent, received).c_str());
}

Outcome Attempt::give_up() const { return break_off(kCannotPack, library().constants.err_other); }

Outcome Attempt::undelivered() const {
  return report("elements that are not contiguous can't be unpacked",
                library().constants.err_other);
}

bool DescribedCall::repeats() const {
  const CollectiveTraits& traits = kCollectiveTraits[static_cast<size_t>(call.collective)];
  return call.send != IBCOLL_IN_PLACE || !(traits.reduces || traits.in_place == InPlace::kAside);
}

Outcome DescribedCall::carry_out(const Attempt& attempt) {
  note(attempt.job, attempt.on);
  if (!load(attempt.job)) return attempt.give_up();
  if (const ibcoll_status status = ibcoll_group_call(attempt.on.group, &call); status != IBCOLL_OK)
      [[unlikely]]
    return attempt.failed(status);
  if (code != 0) [[unlikely]]
    return Outcome::failed(code);
  return deliver(attempt.job) ? kNothingToDo : attempt.undelivered();
}

}  // namespace ibcoll::mpi
