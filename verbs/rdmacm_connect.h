#pragma once
/// Connections set up by librdmacm: from IP address to IP address, as the administrator routes
/// them. RoCE only.

#include "verbs/connect.h"

namespace ibcoll::verbs {

/// Listens at the port's IP address. ErrorCode::kUnsupported where the port has none, or this build
/// no librdmacm.
Result<std::unique_ptr<Connector>> create_cm_connector(const Device& device, Responder& responder,
                                                       const RetryOptions& retry);

}  // namespace ibcoll::verbs
