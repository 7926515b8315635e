#pragma once
/// What the files of the C interface share: its objects, and Results to statuses.

#include <memory>
#include <string>

#include "engine/core/call.h"
#include "ibcoll/ibcoll.h"

struct ibcoll_group {
  ibcoll::Group* group;
  std::unique_ptr<ibcoll::Group> owned;  ///< null for the world
  std::unique_ptr<ibcoll::Call> blocking;
};

struct ibcoll_context {
  std::unique_ptr<ibcoll::Bootstrap> bootstrap;  ///< null where a launcher of ours owns it
  std::unique_ptr<ibcoll::Context> context;
  ibcoll_group world;
};

struct ibcoll_request {
  explicit ibcoll_request(ibcoll::Group& group) : call(group) {}
  ibcoll::Call call;
  bool persistent = false;
};

namespace ibcoll::c_api {

/// Keeps the error's line for ibcoll_last_error of this thread; gives its status.
ibcoll_status report(const Error& error);
ibcoll_status refuse(std::string message);

template <class T>
ibcoll_status give(const Result<T>& result) {
  return result ? IBCOLL_OK : report(result.error());
}

}  // namespace ibcoll::c_api
