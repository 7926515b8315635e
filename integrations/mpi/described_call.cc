#include "integrations/mpi/described_call.h"

#include <fmt/format.h>

#include "engine/core/c_api.h"

namespace ibcoll::mpi {

Outcome Attempt::report(const char* line, int code) const {
  say(line);
  library().Comm_call_errhandler(handle, code);
  return Outcome::over(code);
}

Outcome Attempt::failed(ibcoll_status status) const {
  if (status == IBCOLL_ERR_INVALID && ibcoll_last_error_scope() == IBCOLL_SCOPE_CALL)
    return Outcome::to_mpi(Reason::kArguments);
  const ibcoll_mpi_constants& mpi = library().constants;
  return report(ibcoll_last_error(),
                status == IBCOLL_ERR_MISMATCH ? mpi.err_truncate : mpi.err_other);
}

Outcome Attempt::unequal(Count sent, Count received) const {
  return report(
      fmt::format("{}: rank {} of the communicator sends {} bytes to itself, but receives {}",
                  to_string(function), on.rank, sent, received)
          .c_str(),
      library().constants.err_truncate);
}

Outcome Attempt::give_up() const {
  return report("elements that are not contiguous can't be packed", library().constants.err_other);
}

Outcome DescribedCall::chosen_by_size(const Attempt& attempt, const Outcome& described) const {
  if (described.kind != Outcome::kReady) return described;
  // Of reductions `bytes` is the length of what this rank sends, whatever it keeps.
  uint64_t size = bytes;
  if (attempt.function <= Function::kBcast) size = call.bytes;
  if (attempt.function == Function::kReduceScatterBlock)
    size /= static_cast<uint64_t>(attempt.on.size);
  return attempt.job.choice.takes(attempt.function, size, attempt.on.size)
             ? described
             : Outcome::to_mpi(Reason::kSize);
}

Outcome DescribedCall::carry_out(const Attempt& attempt) {
  note(attempt.job, attempt.on);
  if (!load(attempt.job)) return attempt.give_up();
  if (const ibcoll_status status = c_api::run(attempt.on.group, call); status != IBCOLL_OK)
      [[unlikely]]
    return attempt.failed(status);
  return deliver(attempt.job) ? kNothingToDo : attempt.give_up();
}

}  // namespace ibcoll::mpi
