#include "engine/measure/traffic.h"

#include <algorithm>

namespace ibcoll::measure {

int64_t Traffic::bytes(Rank origin, Rank target) const {
  switch (collective_) {
    case Collective::kAlltoall:
    case Collective::kAllgather:
      return bytes_;
    case Collective::kAlltoallv: {
      const int64_t half = bytes_ / 2;
      const int64_t by_class[3] = {half, bytes_, 2 * bytes_ - half};
      return by_class[(origin + target) % 3];
    }
    case Collective::kBarrier:
      break;
  }
  return 0;
}

int64_t Traffic::prefix(Rank line, int count) const {
  if (collective_ != Collective::kAlltoallv) return count * bytes(line, 0);
  int64_t sum = count / 3 * 3 * bytes_;  // three neighbours make three times the nominal bytes
  for (Rank peer = count / 3 * 3; peer < count; ++peer) sum += bytes(line, peer);
  return sum;
}

int64_t Traffic::send_offset(Rank origin, Rank target) const {
  return collective_ == Collective::kAllgather ? 0 : prefix(origin, target);
}

int64_t Traffic::receive_offset(Rank target, Rank origin) const { return prefix(target, origin); }

int64_t Traffic::send_bytes(Rank rank) const {
  return collective_ == Collective::kAllgather ? bytes_ : prefix(rank, ranks_);
}

int64_t Traffic::receive_bytes(Rank rank) const { return prefix(rank, ranks_); }

int64_t Traffic::total_bytes() const {
  int64_t sum = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) sum += receive_bytes(rank);
  return sum;
}

int64_t Traffic::busiest_server_out_bytes(const Shape& shape) const {
  int64_t busiest = 0;
  for (int server = 0; server < shape.servers(); ++server) {
    int64_t out = 0;
    for (const Rank origin : shape.members(server)) {
      out += prefix(origin, ranks_);
      for (const Rank local : shape.members(server)) out -= bytes(origin, local);
    }
    busiest = std::max(busiest, out);
  }
  return busiest;
}

int64_t Traffic::footprint_bytes() const {
  int64_t sum = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) sum += send_bytes(rank) + receive_bytes(rank);
  return sum;
}

}  // namespace ibcoll::measure
