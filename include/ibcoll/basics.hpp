#pragma once
/// @file
/// Of the C++ interface: what calls take and give. Included by ibcoll.hpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ibcoll/ibcoll.h"

namespace ibcoll {

/// What a call that did not succeed throws.
/// @ingroup cpp
class error : public std::runtime_error {
 public:
  /// With the line of ibcoll_last_error().
  explicit error(ibcoll_status status)
      : std::runtime_error(ibcoll_last_error()),
        status_(status),
        scope_(ibcoll_last_error_scope()) {}
  /// What the C interface returned.
  ibcoll_status status() const { return status_; }
  /// What is over: the call, its group, the job.
  ibcoll_scope scope() const { return scope_; }

 private:
  ibcoll_status status_;
  ibcoll_scope scope_;
};

/// What programs need not name.
namespace detail {
/// Throws unless that went well.
inline void check(ibcoll_status status) {
  if (status != IBCOLL_OK) throw error(status);
}
}  // namespace detail

/// How a call is to be made; all ranks of the group must pass the same. Defaults: the engine
/// chooses.
/// @ingroup cpp
struct options {
  std::string algorithm = {};  ///< "linear", "ring", "two_level_ring", ...
  std::string pacing = {};     ///< "free", "gate", "token", "gate_token"
  int pieces = 0;              ///< of relayed data
  bool ordered = false;        ///< reduce: in the order of ranks, the same bits whatever the layout
  /// This rank's alone: a call that takes longer ends its group; see ibcoll_options. Zero: none.
  std::chrono::microseconds deadline{0};
};

/// Memory that all ranks of the server and the network reach directly; freed with the object, which
/// must not outlive the context.
/// @ingroup cpp
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>, "other ranks read and write these bytes");

 public:
  buffer() = default;
  /// Room for so many elements, which are not constructed.
  buffer(ibcoll_context* context, size_t elements) : context_(context), size_(elements) {
    void* memory = nullptr;
    detail::check(ibcoll_alloc(context, elements * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  /// The other has none afterwards.
  buffer(buffer&& other) noexcept
      : context_(other.context_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  /// The two change places.
  buffer& operator=(buffer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (data_ != nullptr) ibcoll_free(context_, data_);
  }

  /// The first element; null: there are none.
  T* data() const { return data_; }
  /// How many elements there are.
  size_t size() const { return size_; }
  /// One of them, from 0.
  T& operator[](size_t i) const { return data_[i]; }
  /// @{
  /// For loops over all.
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  /// @}
  /// @{
  /// As calls take it.
  operator std::span<T>() const { return {data_, size_}; }
  operator std::span<const T>() const { return {data_, size_}; }
  /// @}

 private:
  ibcoll_context* context_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Memory of the program's that the network knows from construction on until deregister() or the
/// object's end; it must stay mapped until then, and calls under way must not use it at the end.
/// @ingroup cpp
class registered_memory {
 public:
  registered_memory() = default;
  /// Registers it (ibcoll_memory_register()).
  template <class T>
  registered_memory(ibcoll_context* context, std::span<T> memory) {
    // Nobody writes to it unless a call receives there.
    detail::check(ibcoll_memory_register(context,
                                         const_cast<std::remove_const_t<T>*>(memory.data()),
                                         memory.size_bytes(), &handle_));
  }
  /// The other has none afterwards.
  registered_memory(registered_memory&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  /// The two change places.
  registered_memory& operator=(registered_memory&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~registered_memory() { ibcoll_memory_deregister(handle_); }

  /// Throws where a call under way uses it, which the object's end can't.
  void deregister() {
    detail::check(ibcoll_memory_deregister(handle_));
    handle_ = nullptr;
  }

 private:
  ibcoll_memory* handle_ = nullptr;
};

/// A nonblocking or persistent call, or a multicast. The object waits for it before it goes.
/// @ingroup cpp
class request {
 public:
  request() = default;
  /// Takes a request of the C interface, to be freed here.
  explicit request(ibcoll_request* handle, bool persistent)
      : handle_(handle), persistent_(persistent) {}
  /// The other has none afterwards.
  request(request&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        persistent_(other.persistent_),
        missing_(std::move(other.missing_)) {}
  /// The two change places.
  request& operator=(request&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(persistent_, other.persistent_);
    std::swap(missing_, other.missing_);
    return *this;
  }
  ~request() {
    if (handle_ == nullptr) return;
    ibcoll_wait(handle_);
    ibcoll_call_free(handle_);
  }

  /// Starts a persistent call.
  void start() { detail::check(ibcoll_start(handle_)); }
  /// True once the call has finished on this rank.
  bool test() {
    if (handle_ == nullptr) return true;
    int done = 0;
    const ibcoll_status status = ibcoll_test(handle_, &done);
    if (status != IBCOLL_OK) fail(status);
    if (done != 0) finish();
    return done != 0;
  }
  /// Ends the call, and its group with it, or the multicast alone; see ibcoll_cancel. To be tested
  /// or waited for all the same.
  void cancel() {
    if (handle_ != nullptr) detail::check(ibcoll_cancel(handle_));
  }
  /// Waits until it has; throws the call's error.
  void wait() {
    if (handle_ == nullptr) return;
    const ibcoll_status status = ibcoll_wait(handle_);
    if (status != IBCOLL_OK) fail(status);
    finish();
  }
  /// After the error of a multicast: the ranks that may lack it. Else none.
  const std::vector<int>& missing() const { return missing_; }

 private:
  /// A nonblocking call that has ended, well or not, is no request any more.
  void finish() {
    if (!persistent_ && ibcoll_call_free(handle_) == IBCOLL_OK) handle_ = nullptr;
  }
  [[noreturn]] void fail(ibcoll_status status) {
    const error thrown(status);  // with the line of the call, not that of freeing it
    keep_missing();
    finish();
    throw thrown;
  }
  /// Before the request goes. Nobody is missing of one that is no multicast: that is refused.
  void keep_missing() {
    int count = 0;
    if (ibcoll_multicast_missing(handle_, nullptr, 0, &count) != IBCOLL_OK) return;
    missing_.resize(static_cast<size_t>(count));
    ibcoll_multicast_missing(handle_, missing_.data(), count, &count);
  }

  ibcoll_request* handle_ = nullptr;
  bool persistent_ = false;
  std::vector<int> missing_;
};

/// Lengths and places of one side of an alltoallv or its like, in bytes, one entry a rank.
/// @ingroup cpp
struct layout {
  std::span<const int64_t> counts;         ///< lengths
  std::span<const int64_t> displacements;  ///< places, from the beginning of the buffer
};

}  // namespace ibcoll
