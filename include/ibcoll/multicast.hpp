#pragma once
/// @file
/// Of the C++ interface: messages to sets of ranks that nobody has arranged. Included by
/// ibcoll.hpp.

#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "ibcoll/basics.hpp"
#include "ibcoll/ibcoll.h"

namespace ibcoll {

/// How a multicast is to be made; see ibcoll_multicast_options.
/// @ingroup cpp
struct multicast_options {
  uint64_t tag = 0;            ///< handed to the members
  std::string algorithm = {};  ///< of bcast, for long messages; empty: chosen
  unsigned pieces = 0;         ///< that long messages are cut into; 0: chosen
  bool acknowledged = false;   ///< the request has finished when all members have the message
  std::chrono::microseconds deadline{0};  ///< zero: none
};

namespace detail {

/// The options of the C interface, which live no longer than `o`.
inline ibcoll_multicast_options c_options_of(const multicast_options& o) {
  ibcoll_multicast_options result = IBCOLL_MULTICAST_OPTIONS_INIT;
  result.tag = o.tag;
  result.algorithm = o.algorithm.empty() ? nullptr : o.algorithm.c_str();
  result.pieces = o.pieces;
  result.acknowledged = o.acknowledged ? 1 : 0;
  result.deadline_us = o.deadline.count();
  return result;
}

}  // namespace detail

/// A message that has come, as a handler is given it: its data are there until the handler returns.
/// @ingroup cpp
class message_view {
 public:
  /// Of the C interface's.
  explicit message_view(const ibcoll_message* handle) : handle_(handle) {}

  /// The data.
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(handle_->data), handle_->bytes};
  }
  /// The data as elements; std::invalid_argument if they do not divide into them.
  template <class T>
  std::span<const T> as() const {
    static_assert(std::is_trivially_copyable_v<T>, "another rank has written these bytes");
    static_assert(alignof(T) <= 64, "messages are aligned to 64 bytes");
    if (handle_->bytes % sizeof(T) != 0) {
      throw std::invalid_argument("ibcoll: a message of " + std::to_string(handle_->bytes) +
                                  " bytes does not divide into elements of " +
                                  std::to_string(sizeof(T)));
    }
    return {static_cast<const T*>(handle_->data), handle_->bytes / sizeof(T)};
  }
  /// What the master has given with it.
  uint64_t tag() const { return handle_->tag; }
  /// Who sent it.
  int master() const { return handle_->master; }
  /// How many members the set has.
  int members() const { return handle_->members; }
  /// Which of them this rank is, from 0; see ibcoll_message.
  int id() const { return handle_->id; }

 protected:
  const ibcoll_message* handle_;  ///< null: there is none
};

/// A message that context::receive() has taken; freed with the object, which must not outlive the
/// context.
/// @ingroup cpp
class message : public message_view {
 public:
  /// Takes a message of the C interface, to be freed here.
  message(ibcoll_context* context, const ibcoll_message* handle)
      : message_view(handle), context_(context) {}
  /// The other is none afterwards, and can be asked nothing.
  message(message&& other) noexcept
      : message_view(std::exchange(other.handle_, nullptr)), context_(other.context_) {}
  /// The two change places.
  message& operator=(message&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(context_, other.context_);
    return *this;
  }
  ~message() { ibcoll_message_free(context_, handle_); }

 private:
  ibcoll_context* context_;
};

/// While it lives messages are handed to a function, those that came before first; afterwards they
/// wait for context::receive() again. One of a context at a time.
///
/// The function runs inside of calls, or in the progress thread: it must not call ibcoll, and an
/// exception that leaves it ends the process (std::terminate).
/// @ingroup cpp
class multicast_handler {
 public:
  /// What is handed a message.
  using function = std::function<void(const message_view&)>;

  /// See ibcoll_multicast_set_handler().
  multicast_handler(ibcoll_context* context, function handler)
      : context_(context), function_(std::make_unique<function>(std::move(handler))) {
    if (!*function_) throw std::invalid_argument("ibcoll: a handler of multicasts that is empty");
    detail::check(ibcoll_multicast_set_handler(context_, call, function_.get()));
  }
  multicast_handler(const multicast_handler&) = delete;
  multicast_handler& operator=(const multicast_handler&) = delete;
  ~multicast_handler() {
    // If that is refused (another thread is in a call) the function must stay for good.
    if (ibcoll_multicast_set_handler(context_, nullptr, nullptr) != IBCOLL_OK)
      static_cast<void>(function_.release());
  }

 private:
  static void call(void* argument, const ibcoll_message* message) {
    try {
      (*static_cast<const function*>(argument))(message_view(message));
#ifdef _CXXABI_FORCED_H
    } catch (const abi::__forced_unwind&) {
      throw;  // pthread_exit
#endif
    } catch (...) {
      std::terminate();
    }
  }

  ibcoll_context* context_;
  std::unique_ptr<function> function_;
};

}  // namespace ibcoll
