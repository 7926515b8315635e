#include "studies/measure/call_costs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "engine/algorithms/registry.h"
#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/core/call.h"

namespace ibcoll::measure {
namespace {

/// Messages of a burst; as many calls of a group may be under way.
constexpr int kBurst = 8;
/// Bytes that a pair moves at most at one size.
constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr int kFewestRounds = 50, kWarmUp = 20;
/// Long enough for a waiting rank to stop spinning and yielding, and to sleep.
constexpr std::chrono::milliseconds kPause{5};

/// The rank that this one exchanges messages with, -1: none.
Rank partner_of(const Shape& shape, Rank rank, Layer layer) {
  const int server = shape.server_of(rank), local = shape.local_of(rank);
  const int other_server = layer == Layer::kLocal ? server : server ^ 1;
  const int other_local = layer == Layer::kLocal ? local ^ 1 : local;
  if (other_server >= shape.servers() || other_local >= shape.server_size(other_server)) return -1;
  return shape.rank_at(other_server, other_local);
}

/// The ends of a pair's messages, at one of its ranks.
class Pair {
 public:
  Pair(Context& context, std::shared_ptr<Group> group, std::byte* memory, size_t stride)
      : context_(context), group_(std::move(group)), memory_(memory), stride_(stride) {
    for (auto& call : calls_) call = std::make_unique<Call>(*group_);
  }

  bool first() const { return group_->rank() == 0; }

  /// There and back; in ns, at the first rank.
  Result<double> round_trip(int64_t bytes) {
    const int64_t begin = now_ns();
    for (const Rank root : {0, 1}) {
      IBCOLL_TRY(start(0, root, bytes));
      IBCOLL_TRY(finish(0));
    }
    return static_cast<double>(now_ns() - begin);
  }

  /// Several one way, and a short one back.
  Result<double> burst(int64_t bytes) {
    const int64_t begin = now_ns();
    for (int i = 0; i < kBurst; ++i) IBCOLL_TRY(start(i, 0, bytes));
    for (int i = 0; i < kBurst; ++i) IBCOLL_TRY(finish(i));
    IBCOLL_TRY(start(0, 1, 1));
    IBCOLL_TRY(finish(0));
    return static_cast<double>(now_ns() - begin);
  }

 private:
  Status start(int at, Rank root, int64_t bytes) {
    const EntryGuard::Entry entry(context_.threads().guard());
    CallArguments arguments;
    arguments.collective = Collective::kBcast;
    arguments.root = root;
    arguments.send = arguments.recv = memory_ + static_cast<size_t>(at) * stride_;
    arguments.block_bytes = static_cast<size_t>(bytes);
    IBCOLL_TRY(calls_[static_cast<size_t>(at)]->prepare(arguments));
    return calls_[static_cast<size_t>(at)]->start();
  }
  Status finish(int at) {
    const EntryGuard::Entry entry(context_.threads().guard());
    return calls_[static_cast<size_t>(at)]->wait();
  }

  Context& context_;
  std::shared_ptr<Group> group_;
  std::byte* memory_;
  size_t stride_;
  std::array<std::unique_ptr<Call>, kBurst> calls_;
};

/// The samples of all ranks, the same on all; every rank has `most` at most.
Result<std::vector<double>> of_all(Bootstrap& bootstrap, std::vector<double> mine, size_t most) {
  constexpr double kNone = -1;
  mine.resize(most, kNone);
  std::vector<double> all(most * static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(mine.data(), most * sizeof(double), all.data()));
  std::erase(all, kNone);
  return all;
}

/// Of exchanges of so many messages: what such a part of them keeps that 99 of 100 messages do.
double exchanges_kept(const std::vector<double>& times, int messages) {
  return quantile(times, std::pow(0.99, messages));
}

/// The broadcast that spreads its block that way.
Result<const Algorithm*> find_bcast(Spread spread) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == Collective::kBcast && algorithm.spec->spread == spread)
      return &algorithm;
  }
  return fail(ErrorCode::kUnsupported, "no broadcast spreads its block in that way");
}

/// Samples of one kind of exchange: `exchange` is made `count` times by all ranks that have a pair.
template <class Exchange>
Result<std::vector<double>> sample(Bootstrap& bootstrap, const Pair* pair, int count,
                                   const Exchange& exchange) {
  std::vector<double> times;
  if (pair != nullptr) {
    for (int i = 0; i < count; ++i) {
      IBCOLL_ASSIGN(const double time, exchange());
      if (pair->first()) times.push_back(time);
    }
  }
  return of_all(bootstrap, std::move(times), static_cast<size_t>(count));
}

Result<std::vector<CallCosts>> measure_layer(Bootstrap& bootstrap, Context& context, Layer layer,
                                             const CallCostSettings& settings) {
  std::vector<CallCosts> result;
  const Shape& shape = context.shape();
  const Rank me = context.rank();
  CallCosts costs;
  costs.layer = layer;
  costs.transport = layer == Layer::kLocal               ? "shm"
                    : context.job().network() != nullptr ? context.job().network()->name()
                                                         : "none";
  for (Rank rank = 0; rank < shape.ranks(); ++rank)
    if (partner_of(shape, rank, layer) > rank) ++costs.pairs;
  if (costs.pairs == 0) return result;

  const auto stride =
      static_cast<size_t>(*std::max_element(settings.sizes.begin(), settings.sizes.end()));
  const Rank other = partner_of(shape, me, layer);
  void* memory = nullptr;
  std::unique_ptr<Pair> pair;
  if (other >= 0) {
    IBCOLL_ASSIGN(memory, context.allocate(kBurst * stride));
    std::memset(memory, 1, kBurst * stride);
    IBCOLL_ASSIGN(auto group, context.groups().create({std::min(me, other), std::max(me, other)}));
    pair =
        std::make_unique<Pair>(context, std::move(group), static_cast<std::byte*>(memory), stride);
  }
  const auto round_trips = [&](int64_t bytes, int count) {
    return sample(bootstrap, pair.get(), count, [&] { return pair->round_trip(bytes); });
  };
  IBCOLL_TRY(round_trips(1, kWarmUp));
  IBCOLL_ASSIGN(const auto shortest, round_trips(1, settings.rounds));
  const double awake = median(shortest);
  IBCOLL_ASSIGN(const auto asleep, sample(bootstrap, pair.get(), settings.pauses, [&] {
                  if (pair->first()) std::this_thread::sleep_for(kPause);
                  return pair->round_trip(1);
                }));
  costs.wake_ns = std::max(0.0, median(asleep) - awake);
  costs.wake_p99_ns = std::max(0.0, exchanges_kept(asleep, 2) - awake);

  for (const int64_t bytes : settings.sizes) {
    const auto rounds = static_cast<int>(std::clamp<int64_t>(
        kMostBytes / bytes, kFewestRounds, std::max(kFewestRounds, settings.rounds)));
    costs.bytes = bytes;
    IBCOLL_TRY(round_trips(bytes, kWarmUp));
    IBCOLL_ASSIGN(const auto trips, round_trips(bytes, std::min(rounds, settings.rounds)));
    // Of a slow round trip one message was slow, not half of either.
    costs.hop_ns = median(trips) / 2;
    costs.hop_p99_ns = exchanges_kept(trips, 2) - costs.hop_ns;
    costs.hop_max_ns = maximum(trips) - costs.hop_ns;
    IBCOLL_ASSIGN(const auto bursts, sample(bootstrap, pair.get(),
                                            std::max(1, std::min(rounds, settings.rounds) / kBurst),
                                            [&] { return pair->burst(bytes); }));
    costs.gap_ns = std::max(0.0, median(bursts) - awake / 2) / kBurst;
    costs.gap_p99_ns = std::max(0.0, exchanges_kept(bursts, kBurst + 1) - awake / 2) / kBurst;
    result.push_back(costs);
  }
  pair.reset();
  if (memory != nullptr) IBCOLL_TRY(context.free(memory));
  return result;
}

}  // namespace

const char* to_string(Layer layer) { return layer == Layer::kLocal ? "shm" : "network"; }

Result<std::vector<CallCosts>> measure_call_costs(Bootstrap& bootstrap, Context& context,
                                                  const CallCostSettings& settings) {
  IBCOLL_ASSIGN(auto all, measure_layer(bootstrap, context, Layer::kLocal, settings));
  IBCOLL_ASSIGN(const auto network, measure_layer(bootstrap, context, Layer::kNetwork, settings));
  all.insert(all.end(), network.begin(), network.end());
  return all;
}

Result<double> measure_program_cost(Bootstrap& bootstrap, int rounds) {
  constexpr int kServers = 64;
  IBCOLL_ASSIGN(const Algorithm* algorithm, find_bcast(Spread::kScatterRing));
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const int64_t begin = now_ns();
    // With its shape, which another set has, too.
    IBCOLL_ASSIGN(const Shape shape,
                  Shape::from_layout(std::vector<int>(kServers, 1), Placement::kBlock));
    const ProgramPtr program = algorithm->build(shape, 1, {});
    const auto time = static_cast<double>(now_ns() - begin);
    times.push_back(time / static_cast<double>(program->size()));
  }
  IBCOLL_ASSIGN(const auto all, of_all(bootstrap, std::move(times), static_cast<size_t>(rounds)));
  return quantile(all, 0.99);
}

}  // namespace ibcoll::measure
