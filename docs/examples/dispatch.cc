// Sends a different number of items to every rank, as a mixture-of-experts layer does: the
// receivers don't know how many will come. c++ -std=c++20 dispatch.cc $(pkg-config --cflags --libs
// ibcoll) -o dispatch && ./dispatch
#include <ibcoll/ibcoll.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

namespace {

// Where blocks of these lengths lie when they follow each other.
std::vector<int64_t> places(const std::vector<int64_t>& counts) {
  std::vector<int64_t> result(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), result.begin(), int64_t{0});
  return result;
}

int dispatch(ibcoll::context& context) {
  const ibcoll::group world = context.world();
  const int me = world.rank(), ranks = world.size();

  // Rank r sends (r + peer) % 3 numbers to each peer. Only the sender knows.
  std::vector<int64_t> send_counts(ranks), recv_counts(ranks, IBCOLL_UNKNOWN);
  std::vector<int32_t> items;
  for (int peer = 0; peer < ranks; ++peer) {
    const int count = (me + peer) % 3;
    items.insert(items.end(), count, me * 1000 + peer);
    send_counts[peer] = count * static_cast<int64_t>(sizeof(int32_t));
  }
  world.exchange_counts(send_counts, recv_counts);

  std::vector<int32_t> received(
      std::accumulate(recv_counts.begin(), recv_counts.end(), int64_t{0}) / sizeof(int32_t));
  const std::vector<int64_t> send_places = places(send_counts), recv_places = places(recv_counts);
  world.alltoallv<int32_t>(items, {send_counts, send_places}, received, {recv_counts, recv_places});

  int wrong = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    for (int64_t i = 0; i < recv_counts[peer] / static_cast<int64_t>(sizeof(int32_t)); ++i) {
      wrong += received[recv_places[peer] / sizeof(int32_t) + i] != peer * 1000 + me;
    }
  }

  // Meanwhile, nonblocking, and started again and again:
  auto numbers = context.allocate<double>(ranks), sums = context.allocate<double>(ranks);
  std::iota(numbers.begin(), numbers.end(), me * 100.0);
  auto exchange = world.alltoall_init<double>(numbers, sums);
  for (int round = 0; round < 3; ++round) {
    exchange.start();
    while (!exchange.test()) {
      // The program's own work goes here.
    }
  }
  for (int peer = 0; peer < ranks; ++peer) wrong += sums[peer] != peer * 100.0 + me;
  if (me == 0) std::printf("%d ranks: %s\n", ranks, wrong != 0 ? "wrong" : "dispatched");
  return wrong != 0;
}

}  // namespace

int main() {
  try {
    return ibcoll::launch(6, dispatch, "3,1,2");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
