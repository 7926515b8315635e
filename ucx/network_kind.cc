#include "ucx/network_kind.h"

#include "ucx/transport.h"

namespace ibcoll::ucx {
namespace {

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
  return create_transport(setup.bootstrap, setup.machines, TransportOptions::from_environment());
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
