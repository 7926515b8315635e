#include "engine/transport/exchange.h"

namespace ibcoll {

Error first_error(std::string_view transport, const std::vector<Status>& of_ranks) {
  const auto first = std::find_if(of_ranks.begin(), of_ranks.end(),
                                  [](const Status& one) { return !one.has_value(); });
  return {first->error().code, fmt::format("no {} transport: rank {}: {}", transport,
                                           first - of_ranks.begin(), first->error().message)};
}

}  // namespace ibcoll
