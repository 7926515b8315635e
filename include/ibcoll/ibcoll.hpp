#pragma once
/// @file
/// C++ interface of ibcoll: owners and spans over the C interface (ibcoll.h), header only. Errors
/// are thrown as ibcoll::error.
///
/// Sizes of spans are checked: a call that would reach past its buffers is refused.

/// @defgroup cpp C++ interface
/// Owners and spans over the C interface. ibcoll::launch() or ibcoll::job begins,
/// ibcoll::context::world() is the group of all ranks, and calls are members of ibcoll::group;
/// ibcoll::context::multicast() sends to any set of ranks.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ibcoll/basics.hpp"
#include "ibcoll/graph.hpp"
#include "ibcoll/group.hpp"
#include "ibcoll/ibcoll.h"
#include "ibcoll/multicast.hpp"
#include "ibcoll/operators.hpp"
#include "ibcoll/sets.hpp"

namespace ibcoll {

/// One rank's membership in a job, as launch() or a job gives it. A handle.
/// @ingroup cpp
class context {
 public:
  /// Of the C interface's.
  explicit context(ibcoll_context* handle) : handle_(handle) {}

  /// This process's rank in the job.
  int rank() const { return ibcoll_rank(handle_); }
  /// How many ranks the job has.
  int size() const { return ibcoll_size(handle_); }
  /// How many servers it has.
  int servers() const { return ibcoll_servers(handle_); }
  /// All ranks of the job.
  group world() const { return group(ibcoll_world(handle_)); }
  /// For calls of these members, of which this rank is one, with this tag; see set_group.
  set_group on_set(const rank_set& members, uint64_t tag) const {
    return set_group(handle_, members.words(), tag);
  }

  /// Sends the data, which must stay as they are until the request is done, to these ranks, who
  /// need not know of it; see ibcoll_multicast(). Throws IBCOLL_ERR_BUSY where as much is under way
  /// as is allowed; try_multicast() does not.
  template <class T>
  [[nodiscard]] request multicast(const rank_set& to, std::span<const T> data,
                                  const multicast_options& o = {}) const {
    ibcoll_request* made = nullptr;
    detail::check(start_multicast(to, data, o, made));
    return request(made, false);
  }
  /// The same; none, and nothing is sent, where multicast() would throw IBCOLL_ERR_BUSY.
  template <class T>
  std::optional<request> try_multicast(const rank_set& to, std::span<const T> data,
                                       const multicast_options& o = {}) const {
    ibcoll_request* made = nullptr;
    const ibcoll_status status = start_multicast(to, data, o, made);
    if (status == IBCOLL_ERR_BUSY) return std::nullopt;
    detail::check(status);
    return request(made, false);
  }
  /// Waits for a message, and takes it.
  message receive() const { return *receive(std::chrono::microseconds(-1)); }
  /// Waits so long at most, not at all (zero), or as long as it takes (-1); see
  /// ibcoll_multicast_receive(). None: none has come.
  std::optional<message> receive(std::chrono::microseconds timeout) const {
    const ibcoll_message* taken = nullptr;
    detail::check(ibcoll_multicast_receive(handle_, timeout.count(), &taken));
    if (taken == nullptr) return std::nullopt;
    return std::optional<message>(std::in_place, handle_, taken);
  }
  /// Hands messages to a function as long as the object lives that this gives.
  [[nodiscard]] multicast_handler handle_messages(multicast_handler::function handler) const {
    return multicast_handler(handle_, std::move(handler));
  }
  /// How long a multicast of so many bytes takes at most until all have acknowledged it; see
  /// ibcoll_multicast_bound().
  std::chrono::duration<double, std::micro> multicast_bound(const rank_set& to, size_t bytes,
                                                            const multicast_options& o = {}) const {
    const ibcoll_multicast_options c_options = detail::c_options_of(o);
    double bound_us = 0;
    detail::check(ibcoll_multicast_bound(handle_, detail::at(to.words()), to.words().size(), bytes,
                                         &c_options, &bound_us));
    return std::chrono::duration<double, std::micro>(bound_us);
  }
  /// What multicasts have done on this rank.
  ibcoll_multicast_counters multicast_counters() const {
    ibcoll_multicast_counters result = IBCOLL_MULTICAST_COUNTERS_INIT;
    detail::check(ibcoll_multicast_get_counters(handle_, &result));
    return result;
  }

  /// An operator of the program's own on elements of type T: T(const T& left, const T& right).
  template <class T, class Function>
  [[nodiscard]] own_operator<T> make_operator(Function function,
                                              const operator_options& o = {}) const {
    return own_operator<T>(handle_, std::move(function), o);
  }

  /// Memory that all ranks of the server and the network reach directly.
  template <class T>
  buffer<T> allocate(size_t elements) const {
    return buffer<T>(handle_, elements);
  }
  /// Makes memory known to the network for all calls that use some of it.
  template <class T>
  registered_memory register_memory(std::span<T> memory) const {
    return registered_memory(handle_, memory);
  }
  /// True for memory that all ranks of the server read in its place: that of allocate().
  template <class T>
  bool is_shared(std::span<T> memory) const {
    int shared = 0;
    detail::check(ibcoll_memory_is_shared(handle_, memory.data(), memory.size_bytes(), &shared));
    return shared != 0;
  }
  /// What went between servers since the job began, on this rank.
  ibcoll_counters counters() const {
    ibcoll_counters result = IBCOLL_COUNTERS_INIT;
    detail::check(ibcoll_get_counters(handle_, &result));
    return result;
  }
  /// What this rank has learned of its messages so far; see ibcoll_get_learned_way().
  std::vector<ibcoll_learned_way> learned_ways() const {
    std::vector<ibcoll_learned_way> all;
    ibcoll_learned_way way = IBCOLL_LEARNED_WAY_INIT;
    while (ibcoll_get_learned_way(handle_, static_cast<int>(all.size()), &way) == IBCOLL_OK)
      all.push_back(way);
    return all;
  }
  /// Which threads may call.
  ibcoll_thread_level thread_level() const { return ibcoll_get_thread_level(handle_); }
  /// Sets it; see ibcoll_set_thread_level.
  void set_thread_level(ibcoll_thread_level level) const {
    detail::check(ibcoll_set_thread_level(handle_, level));
  }
  /// Whether a thread of the library's own makes progress; see ibcoll_set_progress_thread.
  void set_progress_thread(bool on) const {
    detail::check(ibcoll_set_progress_thread(handle_, on ? 1 : 0));
  }
  /// One round; true if something moved.
  bool progress() const {
    int moved = 0;
    detail::check(ibcoll_progress(handle_, &moved));
    return moved != 0;
  }
  /// The context's, for poll() and epoll.
  int descriptor() const {
    int fd = -1;
    detail::check(ibcoll_get_descriptor(handle_, &fd));
    return fd;
  }
  /// True: sleep on the descriptor now; false: something moved, look first.
  bool arm() const {
    int armed = 0;
    detail::check(ibcoll_arm(handle_, &armed));
    return armed != 0;
  }
  /// What the C interface takes.
  ibcoll_context* handle() const { return handle_; }

 private:
  template <class T>
  ibcoll_status start_multicast(const rank_set& to, std::span<const T> data,
                                const multicast_options& o, ibcoll_request*& made) const {
    static_assert(std::is_trivially_copyable_v<T>, "other ranks read these bytes");
    const ibcoll_multicast_options c_options = detail::c_options_of(o);
    return ibcoll_multicast(handle_, detail::at(to.words()), to.words().size(), data.data(),
                            data.size_bytes(), &c_options, &made);
  }

  ibcoll_context* handle_;
};

/// Membership in a job from construction to finalize() or the object's end; both are collective.
/// Groups, buffers, registered memory and requests must go before.
/// @ingroup cpp
class job {
 public:
  /// The job this process was started in (ibcoll_init).
  job() { detail::check(ibcoll_init(&handle_)); }
  /// The job of a host's processes (ibcoll_init_with).
  explicit job(const ibcoll_bootstrap& host) { detail::check(ibcoll_init_with(&host, &handle_)); }
  /// The other is in none afterwards.
  job(job&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  /// The two change places.
  job& operator=(job&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~job() {
    if (handle_ != nullptr) ibcoll_finalize(handle_);
  }

  /// Leaves the job now; throws what went wrong, which the object's end can't.
  void finalize() {
    const ibcoll_status status = ibcoll_finalize(handle_);
    if (ibcoll_rank(handle_) < 0) handle_ = nullptr;  // else another thread was inside
    detail::check(status);
  }
  /// The membership, for calls.
  ibcoll::context context() const { return ibcoll::context(handle_); }

 private:
  ibcoll_context* handle_ = nullptr;
};

/// Starts `ranks` processes on this machine, each of which runs `main`; gives 0 if all returned 0,
/// else the first result that was not. An exception that leaves `main` ends its process with its
/// text and status 1. `keep_survivors`: see ibcoll_launch_options.
/// @ingroup cpp
inline int launch(int ranks, const std::function<int(context&)>& main,
                  const std::string& server_layout = {}, bool keep_survivors = false) {
  ibcoll_launch_options o = IBCOLL_LAUNCH_OPTIONS_INIT;
  o.ranks = ranks;
  o.layout = server_layout.empty() ? nullptr : server_layout.c_str();
  o.bind = 1;
  o.keep_survivors = keep_survivors ? 1 : 0;
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
