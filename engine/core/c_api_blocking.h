#pragma once
/// The C interface: calls that the program makes again and again.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "engine/core/c_api_structs.h"
#include "engine/core/call.h"
#include "engine/core/own_operators.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::c_api {

/// What the program has said of a call that stays prepared.
class Description {
 public:
  void take(const ibcoll_call& call) {
    is_whole_ = says_all(call);
    if (is_whole_) call_ = call;
  }
  /// Whether that call means the same, and so needs not be prepared anew.
  bool is(const ibcoll_call& call) const {
    return is_whole_ && call.struct_size == sizeof call &&
           std::memcmp(&call, &call_, sizeof call) == 0;
  }
  /// Whether all that a call means is in its description, and nothing behind a pointer.
  static bool says_all(const ibcoll_call& call) {
    return call.options == nullptr && call.graph == nullptr && call.send_blocks == nullptr &&
           call.recv_blocks == nullptr && number_of(call.op) < OwnOperators::kFirst &&
           !is_unequal(static_cast<Collective>(call.collective));
  }

 private:
  ibcoll_call call_ = {};
  bool is_whole_ = false;
};

/// The blocking calls of a group. Programs repeat them: the latest stay prepared, but for those
/// that hold memory, which serves other groups, too.
class BlockingCalls {
 public:
  /// Checks the call, starts it and waits for it.
  Status carry_out(ibcoll_group& handle, const ibcoll_call& call);

 private:
  struct Known {
    std::unique_ptr<Call> call;
    Description description;
    uint32_t plans = 0;  ///< CallPlans::changes() when it was prepared
  };
  /// Of the calls of an iteration of a program, in which such small ones count.
  static constexpr size_t kKnown = 4;

  Known* find(const ibcoll_call& call, uint32_t plans);

  std::array<Known, kKnown> known_;
  size_t latest_ = 0;
  std::unique_ptr<Call> other_;  ///< of those that Description says not all of
};

}  // namespace ibcoll::c_api
