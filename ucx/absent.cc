// What stands here for UCX in a build without it.

#include "ucx/network_kind.h"

namespace ibcoll::ucx {
namespace {

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup&) {
  return fail(ErrorCode::kUnsupported,
              "this build has no transport 'ucx' between servers: UCX (libucx-dev) was not there");
}

Result<std::string> usable_port() { return fail(ErrorCode::kUnsupported, "this build has no UCX"); }

}  // namespace

NetworkKind network_kind() {
  return {.preference = kPreference, .open = open, .usable_port = usable_port, .costs_cores = true};
}

}  // namespace ibcoll::ucx
