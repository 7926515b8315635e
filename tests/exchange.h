#pragma once
/// All-to-all calls that know what must arrive.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

/// An alltoall of a group under way, which knows what must arrive.
class Exchange {
 public:
  Exchange(Group& group, size_t block_bytes, uint32_t number, std::string_view algorithm = {});
  void fill();
  Status prepare() { return call_.prepare(arguments_); }
  Status post();
  bool right() const;
  Call& call() { return call_; }
  void set_time_limit(int64_t ns) { arguments_.time_limit_ns = ns; }
  void set_number(uint32_t number);

 private:
  Rank me() const { return const_cast<Call&>(call_).group().rank(); }
  Call call_;
  size_t block_;
  uint32_t number_;
  std::vector<std::byte> send_, recv_;
  CallArguments arguments_;
};

/// From its start to its end.
Status one_call(Group& group, size_t bytes, std::string_view algorithm);

}  // namespace ibcoll::testing
