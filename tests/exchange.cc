#include "tests/exchange.h"

#include <algorithm>

namespace ibcoll::testing {

Exchange::Exchange(Group& group, size_t block_bytes, uint32_t number, std::string_view algorithm)
    : call_(group), block_(block_bytes), number_(number) {
  const size_t bytes = block_bytes * static_cast<size_t>(group.size());
  send_.resize(bytes);
  recv_.assign(bytes, kPoison);
  arguments_.collective = Collective::kAlltoall;
  arguments_.send = send_.data();
  arguments_.recv = recv_.data();
  arguments_.block_bytes = block_bytes;
  arguments_.options.algorithm = algorithm;
  fill();
}

void Exchange::fill() {
  for (size_t i = 0; i < send_.size(); ++i) {
    send_[i] = pattern(call_.group().rank(), static_cast<Rank>(i / block_), i % block_, number_);
  }
  std::fill(recv_.begin(), recv_.end(), kPoison);
}

Status Exchange::post() {
  IBCOLL_TRY(prepare());
  return call_.start();
}

bool Exchange::right() const {
  for (size_t i = 0; i < recv_.size(); ++i) {
    if (recv_[i] != pattern(static_cast<Rank>(i / block_), me(), i % block_, number_)) return false;
  }
  return true;
}

void Exchange::set_number(uint32_t number) {
  number_ = number;
  fill();
}

Status one_call(Group& group, size_t bytes, std::string_view algorithm) {
  Exchange exchange(group, bytes, 1, algorithm);
  IBCOLL_TRY(exchange.post());
  return exchange.call().wait();
}

}  // namespace ibcoll::testing
