#pragma once
/// @file
/// Of the C++ interface: what all calls of a group have in common. Included by ibcoll.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "ibcoll/basics.hpp"
#include "ibcoll/ibcoll.h"
#include "ibcoll/operators.hpp"

namespace ibcoll::detail {

/// A group's handle, and what turns spans and options into what the C interface takes.
class group_base {
 public:
  /// Of the C interface's group.
  explicit group_base(ibcoll_group* handle) : handle_(handle) {}

  /// This process's rank in the group.
  int rank() const { return ibcoll_group_rank(handle_); }
  /// How many ranks it has.
  int size() const { return ibcoll_group_size(handle_); }
  /// What the C interface takes.
  ibcoll_group* handle() const { return handle_; }

 protected:
  /// @cond
  template <class T>
  static int64_t bytes(std::span<T> data) {
    return static_cast<int64_t>(data.size_bytes());
  }
  template <class T>
  size_t block_bytes(std::span<T> blocks) const {
    if (blocks.size() % static_cast<size_t>(size()) != 0) {
      throw std::invalid_argument("ibcoll: a buffer of " + std::to_string(blocks.size()) +
                                  " elements does not divide into " + std::to_string(size()) +
                                  " blocks");
    }
    return blocks.size_bytes() / static_cast<size_t>(size());
  }
  void check_layout(const layout& l) const {
    if (l.counts.size() != static_cast<size_t>(size()) ||
        l.displacements.size() != static_cast<size_t>(size())) {
      throw std::invalid_argument("ibcoll: one count and one displacement a rank are needed, " +
                                  std::to_string(size()) + " in all");
    }
  }
  const ibcoll_block* checked(std::span<const ibcoll_block> blocks) const {
    if (blocks.size() != static_cast<size_t>(size())) {
      throw std::invalid_argument("ibcoll: one block a rank is needed, " + std::to_string(size()) +
                                  " in all");
    }
    return blocks.data();
  }
  /// Null where there is nothing: where it is used all the same, that is refused.
  template <class T>
  static T* at(std::span<T> memory) {
    return memory.empty() ? nullptr : memory.data();
  }
  /// The options of the C interface, for one expression.
  class c_options {
   public:
    template <class T>
    c_options(const options& o, std::span<const T> send, std::span<T> recv)
        : options_(IBCOLL_OPTIONS_INIT) {
      options_.algorithm = o.algorithm.empty() ? nullptr : o.algorithm.c_str();
      options_.pacing = o.pacing.empty() ? nullptr : o.pacing.c_str();
      options_.pieces = o.pieces;
      options_.send_bytes = send.size_bytes();
      options_.recv_bytes = recv.size_bytes();
      options_.ordered = o.ordered ? 1 : 0;
      options_.deadline_us = o.deadline.count();
    }
    const ibcoll_options* get() const { return &options_; }

   private:
    ibcoll_options options_;
  };

  /// The request of a call; one that is not persistent is started.
  request make(ibcoll_call call, unsigned flags = 0) const {
    ibcoll_request* made = nullptr;
    call.flags = flags;
    detail::check(ibcoll_call_init(handle_, &call, &made));
    request result(made, flags == IBCOLL_PERSISTENT);
    if (flags != IBCOLL_PERSISTENT) result.start();
    return result;
  }

  ibcoll_group* handle_;
  /// @endcond
};

}  // namespace ibcoll::detail
