#pragma once
/// The C interface: counts and displacements that are kept for later calls.

#include <cstdint>
#include <vector>

#include "engine/core/call_arguments.h"
#include "engine/core/group.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::c_api {

/// Counts and displacements of a call that is prepared once and made again, which the program need
/// not keep.
class CountCopies {
 public:
  /// Copies those that the call reads, and has `arguments` name the copies.
  void copy(CallArguments& arguments, const Group& group);
  /// Whether a call reads the same. It differs from the one that was copied in nothing but what its
  /// pointers lead to.
  bool are_of(const ibcoll_call& call) const;

 private:
  std::vector<int64_t> send_counts_, send_displacements_, recv_counts_, recv_displacements_;
};

}  // namespace ibcoll::c_api
