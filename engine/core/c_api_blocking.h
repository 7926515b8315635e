#pragma once
/// The C interface: calls that the program makes again and again.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "engine/core/c_api_counts.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/call.h"
#include "engine/core/own_operators.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::c_api {

/// A copy of the options of a call, if they are not longer than usual.
class KnownOptions {
 public:
  static bool can_take(const ibcoll_options& options) {
    return options.struct_size == sizeof options && fits(options.algorithm) && fits(options.pacing);
  }
  void take(const ibcoll_options& options);
  /// Whether these mean the same.
  bool are(const ibcoll_options& options) const;

 private:
  using Name = std::array<char, 32>;
  static bool fits(const char* name) {
    return name == nullptr || std::memchr(name, 0, sizeof(Name)) != nullptr;
  }

  ibcoll_options options_ = {};  ///< but for its names
  Name algorithm_ = {}, pacing_ = {};
};

/// What the program has said of a call that stays prepared.
class Description {
 public:
  /// Keeps nothing of a call that does not say all: what its pointers lead to may change.
  void take(const ibcoll_call& call) { keep(says_all(call) ? call : ibcoll_call{}); }
  /// The same of a call that may have counts and a graph, which the caller compares besides.
  void take_with_lists(const ibcoll_call& call) {
    keep(says_all_but_lists(call) ? call : ibcoll_call{});
  }
  /// Whether that call means the same, and so needs not be prepared anew.
  bool is(const ibcoll_call& call) const {
    if (call.struct_size != sizeof call) return false;
    if (call.options != nullptr && call_.options != nullptr) return is_with_options(call);
    return std::memcmp(&call, &call_, sizeof call) == 0;
  }
  /// Whether all that a call means is in its description and its options, and nothing behind other
  /// pointers. It need not be right.
  static bool says_all(const ibcoll_call& call) {
    return says_all_but_lists(call) && !has_lists(call);
  }
  /// Whether only counts, displacements and a graph are missing.
  static bool says_all_but_lists(const ibcoll_call& call) {
    return (call.options == nullptr || KnownOptions::can_take(*call.options)) &&
           call.send_blocks == nullptr && call.recv_blocks == nullptr &&
           number_of(call.op) < OwnOperators::kFirst;
  }
  static bool has_lists(const ibcoll_call& call) {
    return call.graph != nullptr || call.send_counts != nullptr ||
           call.send_displacements != nullptr || call.recv_counts != nullptr ||
           call.recv_displacements != nullptr;
  }

 private:
  void keep(const ibcoll_call& call) {
    call_ = call;
    if (call_.options != nullptr) options_.take(*call_.options);
  }
  bool is_with_options(const ibcoll_call& call) const;

  ibcoll_call call_ = {};
  KnownOptions options_;  ///< if the call has any
};

/// The blocking calls of a group or a graph. Programs repeat them: some of the latest stay
/// prepared, but none that holds memory, which serves other groups, too.
class BlockingCalls {
 public:
  /// Checks the call, starts it and waits for it.
  Status carry_out(ibcoll_context& context, const std::shared_ptr<Group>& group,
                   const ibcoll_call& call);

 private:
  struct Known {
    std::unique_ptr<Call> call;
    Description description;
    bool has_lists = false;              ///< of which there are copies
    CountCopies counts;                  ///< which the call names
    std::shared_ptr<const Graph> graph;  ///< kept, so no other one has its address

    bool are_lists_of(const ibcoll_call& other) const;
  };
  /// Of the calls of an iteration of a program, in which such small ones count.
  static constexpr size_t kKnown = 4;

  Known* find(const ibcoll_call& call);
  Known& place_for(const ibcoll_call& call);

  std::array<Known, kKnown> known_;
  size_t latest_ = 0;            ///< the one used last; what is made next takes the place before it
  std::unique_ptr<Call> other_;  ///< of those of which not all can be compared
};

}  // namespace ibcoll::c_api
