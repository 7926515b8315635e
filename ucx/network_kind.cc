#include "ucx/network_kind.h"

#include "ucx/transport.h"

namespace ibcoll::ucx {
namespace {

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
  Result<TransportOptions> options = TransportOptions::from_environment();
  if (options && setup.most_connections() != 0)
    options = fail(ErrorCode::kInvalidArgument,
                   "IBCOLL_MAX_CONNECTIONS={}: connections of UCX can't be limited",
                   setup.max_connections);
  return create_transport(setup.bootstrap, setup.machines, options);
}

Result<std::string> usable_port() {
  IBCOLL_ASSIGN(const std::unique_ptr<UcpContext> context, UcpContext::open());
  return describe(context->resources());
}

}  // namespace

NetworkKind network_kind() {
  return {.preference = kPreference, .open = open, .usable_port = usable_port, .costs_cores = true};
}

}  // namespace ibcoll::ucx
