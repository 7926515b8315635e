#pragma once
/// C++ interface of ibcoll: owners and spans over the C interface (ibcoll.h), header only. Errors
/// are thrown as ibcoll::error.
///
/// Sizes of spans are checked: a call that would reach past its buffers is refused.

#include <cstddef>
#include <functional>
#include <string>

#include "ibcoll/basics.hpp"
#include "ibcoll/group.hpp"
#include "ibcoll/ibcoll.h"

namespace ibcoll {

/// One rank's membership in a job, as ibcoll_launch or ibcoll_init gave it. A handle.
class context {
 public:
  explicit context(ibcoll_context* handle) : handle_(handle) {}

  int rank() const { return ibcoll_rank(handle_); }
  int size() const { return ibcoll_size(handle_); }
  int servers() const { return ibcoll_servers(handle_); }
  group world() const { return group(ibcoll_world(handle_)); }
  template <class T>
  buffer<T> allocate(size_t elements) const {
    return buffer<T>(handle_, elements);
  }
  ibcoll_counters counters() const {
    ibcoll_counters result{};
    detail::check(ibcoll_get_counters(handle_, &result));
    return result;
  }
  ibcoll_context* handle() const { return handle_; }

 private:
  ibcoll_context* handle_;
};

/// Starts `ranks` processes on this machine, each of which runs `main`; gives 0 if all returned 0,
/// else the first result that was not. An exception that leaves `main` ends its process with its
/// text and status 1.
inline int launch(int ranks, const std::function<int(context&)>& main,
                  const std::string& server_layout = {}) {
  ibcoll_launch_options o{};
  o.ranks = ranks;
  o.layout = server_layout.empty() ? nullptr : server_layout.c_str();
  o.bind = 1;
  int status = 0;
  detail::check(ibcoll_launch(
      &o,
      [](ibcoll_context* handle, void* argument) {
        try {
          context c(handle);
          return (*static_cast<const std::function<int(context&)>*>(argument))(c);
        } catch (const std::exception& e) {
          ibcoll_abort(handle, e.what());
          return 1;
        }
      },
      const_cast<std::function<int(context&)>*>(&main), &status));
  return status;
}

}  // namespace ibcoll
