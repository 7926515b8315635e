#include "engine/bootstrap/error_record.h"

namespace ibcoll {

ErrorRecord to_record(const Status& status) {
  ErrorRecord record;
  if (status) return record;
  record.code = static_cast<int32_t>(status.error().code);
  status.error().message.copy(record.text, sizeof record.text - 1);
  return record;
}

Status to_status(const ErrorRecord& record) {
  if (record.code == 0) return {};
  return tl::unexpected<Error>(Error{static_cast<ErrorCode>(record.code), record.text});
}

Result<std::vector<Status>> exchange_errors(Bootstrap& bootstrap, const Status& mine) {
  const ErrorRecord own = to_record(mine);
  std::vector<ErrorRecord> records(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&own, sizeof own, records.data()));
  std::vector<Status> all;
  all.reserve(records.size());
  for (const ErrorRecord& record : records) all.push_back(to_status(record));
  return all;
}

}  // namespace ibcoll
