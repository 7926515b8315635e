#include "engine/transport/exchange.h"

namespace ibcoll {

Error tell_error(Bootstrap& bootstrap, std::string_view transport, Rank failed,
                 const Status& mine) {
  const ErrorRecord own = to_record(mine);
  ErrorRecord told;
  if (const Status gathered =
          bootstrap.allgather_of(std::span(&failed, 1), &own, sizeof own, &told);
      !gathered)
    return gathered.error();
  return {static_cast<ErrorCode>(told.code),
          fmt::format("no {} transport: rank {}: {}", transport, failed, told.text)};
}

}  // namespace ibcoll
