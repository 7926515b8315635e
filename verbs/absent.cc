// What stands here for verbs in a build without libibverbs.

#include "verbs/network_kind.h"

namespace ibcoll::verbs {
namespace {

Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup&) {
  return fail(ErrorCode::kUnsupported, "this build has no transport 'verbs' between servers");
}

Result<std::string> usable_port() {
  return fail(ErrorCode::kUnsupported, "this build has no verbs");
}

}  // namespace

NetworkKind network_kind() {
  return {.preference = kPreference, .open = open, .usable_port = usable_port};
}

}  // namespace ibcoll::verbs
