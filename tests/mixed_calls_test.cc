// Thousands of calls of all kinds under way at once, over dozens of groups that overlap, posted by
// every rank in an order of its own and ended in another: every byte of every buffer is checked.

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <random>

#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::JobOptions;
using testing::kPoison;
using testing::pattern;
using testing::RankView;

/// A call as all its ranks know it.
struct Item {
  size_t group = 0;
  Collective collective = Collective::kBarrier;
  Rank root = 0;
  size_t bytes = 0;  ///< of a block; where blocks differ, about so many
  uint32_t number = 0;
  bool in_place = false;
  bool persistent = false;
};

/// What the whole job does; computed by every rank from the seed.
struct Work {
  std::vector<std::vector<Rank>> groups;
  std::vector<std::vector<Item>> rounds;  ///< calls that are under way together
  std::vector<Item> persistent;           ///< started in every round
};

constexpr size_t kGroups = 50;
constexpr Rank kCombined = -4;  ///< target of what is reduced, for the pattern

Item some_item(std::mt19937& random, const Work& work, uint32_t number) {
  constexpr std::array<size_t, 16> kSizes = {0,   1,   7,   8,    8,    24,   40,    100,
                                             100, 333, 500, 1000, 1024, 4000, 20000, 70001};
  Item item;
  item.group = random() % work.groups.size();
  item.collective = kCollectives[random() % kCollectives.size()];
  item.root = static_cast<Rank>(random() % work.groups[item.group].size());
  item.bytes = kSizes[random() % kSizes.size()];
  item.number = number;
  item.in_place = random() % 4 == 0 && (item.collective == Collective::kAlltoall ||
                                        item.collective == Collective::kAllgather);
  return item;
}

Work some_work(uint32_t seed, int ranks, uint32_t calls, uint32_t rounds) {
  std::mt19937 random(seed);
  Work work;
  std::vector<Rank> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  for (size_t i = 0; i < kGroups; ++i) {
    // Small groups occur more than once with the same ranks, in the same and in another order.
    std::shuffle(all.begin(), all.end(), random);
    const size_t size = 1 + random() % all.size();
    work.groups.emplace_back(all.begin(), all.begin() + static_cast<ptrdiff_t>(size));
  }
  uint32_t number = 0;
  const uint32_t in_round = calls / rounds;
  for (uint32_t i = 0; i < in_round / 5; ++i) {
    work.persistent.push_back(some_item(random, work, number++));
    work.persistent.back().persistent = true;
  }
  work.rounds.resize(rounds);
  for (std::vector<Item>& round : work.rounds) {
    while (round.size() + work.persistent.size() < in_round)
      round.push_back(some_item(random, work, number++));
  }
  return work;
}

/// One side's blocks, with gaps between those that differ in length.
struct Blocks {
  std::vector<int64_t> counts, places;
  size_t bytes = 0;

  void add(size_t count, bool gap) {
    counts.push_back(static_cast<int64_t>(count));
    places.push_back(static_cast<int64_t>(bytes));
    bytes += count + (gap ? 5 : 0);
  }
};

/// A call of this rank, and what must be in its buffers when it has ended.
class Posted {
 public:
  Posted(Group& group, const Item& item)
      : item_(item), me_(group.rank()), ranks_(group.size()), call_(group) {
    lay_out();
    fill(item.number);
  }

  Status prepare() {
    CallArguments a;
    a.collective = item_.collective;
    a.root = has_root(item_.collective) ? item_.root : 0;
    a.in_place = item_.in_place;
    a.block_bytes = block_bytes();
    a.send = item_.in_place ? nullptr : send_.data();
    a.recv = recv_.data();
    if (item_.collective == Collective::kBcast) a.send = recv_.data();
    a.send_counts = out_.counts.data();
    a.send_displacements = out_.places.data();
    a.recv_counts = in_.counts.data();
    a.recv_displacements = in_.places.data();
    if (is_unequal(item_.collective) && item_.collective != Collective::kAlltoallv) {
      a.own_count = item_.collective == Collective::kScatterv ? in_.counts[0] : out_.counts[0];
    }
    if (item_.collective == Collective::kReduce) {
      IBCOLL_ASSIGN(a.reduction, xors() ? find_reduction(ElementType::kUint64, Operator::kBitXor)
                                        : find_reduction(ElementType::kUint8, Operator::kSum));
    }
    return call_.prepare(a);
  }
  /// `number` goes into the data: another each time a persistent call is started.
  void fill(uint32_t number) {
    std::fill(send_.begin(), send_.end(), kPoison);
    std::fill(recv_.begin(), recv_.end(), kPoison);
    expected_ = recv_;
    const Collective c = item_.collective;
    for (size_t i = 0; i < out_.counts.size(); ++i) {
      const Rank target = c == Collective::kReduce                                ? kCombined
                          : c == Collective::kGather || c == Collective::kGatherv ? item_.root
                          : sends_one()                                           ? Block::kEveryone
                                        : static_cast<Rank>(i);
      // What is sent in place lies where it would be received.
      const size_t place = item_.in_place && sends_one() ? static_cast<size_t>(me_) : i;
      std::byte* to = item_.in_place            ? recv_.data() + in_.places[place]
                      : c == Collective::kBcast ? recv_.data()
                                                : send_.data() + out_.places[i];
      write(to, static_cast<size_t>(out_.counts[i]), me_, target, number);
    }
    if (c == Collective::kBcast) expected_ = recv_;
    for (size_t i = 0; i < in_.counts.size(); ++i) {
      std::byte* to = expected_.data() + in_.places[i];
      const auto bytes = static_cast<size_t>(in_.counts[i]);
      if (c == Collective::kReduce) {
        combine(to, bytes, number);
      } else if (c == Collective::kBcast) {
        write(to, bytes, item_.root, Block::kEveryone, number);
      } else {
        const bool scatters = c == Collective::kScatter || c == Collective::kScatterv;
        const bool gathers_all = c == Collective::kAllgather || c == Collective::kAllgatherv;
        write(to, bytes, scatters ? item_.root : static_cast<Rank>(i),
              gathers_all ? Block::kEveryone : me_, number);
      }
    }
  }
  bool right() const { return recv_ == expected_; }
  Call& call() { return call_; }
  const Item& item() const { return item_; }
  std::string describe() const {
    return fmt::format("call {} ({} of {} bytes, root {}, group {} of {} ranks{})", item_.number,
                       to_string(item_.collective), item_.bytes, item_.root, item_.group, ranks_,
                       item_.persistent ? ", persistent" : "");
  }

 private:
  bool sends_one() const {
    return item_.collective != Collective::kAlltoall &&
           item_.collective != Collective::kAlltoallv && item_.collective != Collective::kScatter &&
           item_.collective != Collective::kScatterv;
  }
  bool xors() const { return item_.number % 2 == 0; }
  size_t block_bytes() const {
    return item_.collective == Collective::kReduce ? item_.bytes / 8 * 8 : item_.bytes;
  }
  /// Of the block that one rank has for another.
  size_t length(Rank origin, Rank target) const {
    if (!is_unequal(item_.collective)) return block_bytes();
    const auto mixed = static_cast<uint32_t>(origin * 5 + target * 3) + item_.number;
    return item_.bytes * (mixed % 4) / 2;
  }
  void lay_out() {
    const Collective c = item_.collective;
    const bool unequal = is_unequal(c);
    const Shape shape = Shape::single_server(ranks_);  // of the slots, which know no servers
    const Rank root = has_root(c) ? item_.root : 0;
    for (uint32_t i = 0; i < send_slots(c, shape, me_, root); ++i) {
      const Block block = send_block(c, me_, root, i);
      out_.add(length(block.origin, std::max(block.target, 0)), unequal);
    }
    for (uint32_t i = 0; i < recv_slots(c, shape, me_, root); ++i) {
      const Block block = recv_block(c, me_, root, i);
      const bool known = block.target >= 0 && block.origin >= 0;
      in_.add(length(std::max(block.origin, 0), known ? block.target : 0), unequal);
    }
    // Past the end nothing may be written either.
    send_.resize(out_.bytes + 8);
    recv_.resize(std::max(in_.bytes, c == Collective::kBcast ? out_.bytes : 0) + 8);
  }
  static void write(std::byte* to, size_t bytes, Rank origin, Rank target, uint32_t number) {
    for (size_t i = 0; i < bytes; ++i) to[i] = pattern(origin, target, i, number);
  }
  void combine(std::byte* to, size_t bytes, uint32_t number) const {
    for (size_t i = 0; i < bytes; ++i) {
      std::byte sum{};
      for (Rank rank = 0; rank < ranks_; ++rank) {
        const std::byte term = pattern(rank, kCombined, i, number);
        sum = xors()
                  ? sum ^ term
                  : static_cast<std::byte>(static_cast<uint8_t>(sum) + static_cast<uint8_t>(term));
      }
      to[i] = sum;
    }
  }

  Item item_;
  Rank me_;
  int ranks_;
  Call call_;
  Blocks out_, in_;
  std::vector<std::byte> send_, recv_, expected_;
};

/// One rank's part of the work.
class Worker {
 public:
  Worker(const RankView& rank, const Work& work, uint32_t seed)
      : rank_(rank),
        work_(work),
        random_(seed * 1000 + static_cast<uint32_t>(rank.context.rank())) {}

  void run() {
    if (!make_groups()) return;
    for (const Item& item : work_.persistent) {
      if (!groups_[item.group]) continue;
      persistent_.push_back(std::make_unique<Posted>(*groups_[item.group], item));
      if (!rank_.good(persistent_.back()->prepare(), "prepare")) return;
    }
    for (size_t round = 0; round < work_.rounds.size(); ++round) {
      if (!post(round) || !finish()) return;
    }
  }

 private:
  bool make_groups() {
    for (const std::vector<Rank>& members : work_.groups) {
      groups_.emplace_back();
      if (std::find(members.begin(), members.end(), rank_.context.rank()) == members.end())
        continue;
      auto group = rank_.context.create_group(members);
      if (!rank_.good(group, "group")) return false;
      groups_.back() = std::move(*group);
    }
    return true;
  }

  /// Starts all calls of a round: those of a group in their order, groups in any order.
  bool post(size_t round) {
    std::vector<std::deque<std::pair<const Item*, Posted*>>> queues(kGroups);
    for (const auto& call : persistent_)
      queues[call->item().group].emplace_back(&call->item(), call.get());
    for (const Item& item : work_.rounds[round]) {
      if (groups_[item.group]) queues[item.group].emplace_back(&item, nullptr);
    }
    std::vector<size_t> open;
    for (size_t i = 0; i < kGroups; ++i) {
      if (!queues[i].empty()) open.push_back(i);
    }
    while (!open.empty()) {
      const size_t place = random_() % open.size();
      auto& queue = queues[open[place]];
      auto [item, call] = queue.front();
      queue.pop_front();
      if (queue.empty()) {
        open[place] = open.back();
        open.pop_back();
      }
      if (call == nullptr) {
        made_.push_back(std::make_unique<Posted>(*groups_[item->group], *item));
        call = made_.back().get();
        if (!rank_.good(call->prepare(), "prepare " + call->describe())) return false;
      } else {
        call->fill(item->number + static_cast<uint32_t>(round) * 1'000'000);
      }
      if (!rank_.good(call->call().start(), "start " + call->describe())) return false;
      under_way_.push_back(call);
      if (random_() % 8 == 0 && !test(random_() % under_way_.size())) return false;
    }
    return true;
  }

  bool finish() {
    while (!under_way_.empty()) {
      const size_t place = random_() % under_way_.size();
      if (random_() % 4 != 0) {
        if (!test(place)) return false;
        continue;
      }
      Posted* call = under_way_[place];
      if (!rank_.good(call->call().wait(), "wait for " + call->describe())) return false;
      if (!ended(place)) return false;
    }
    made_.clear();
    return true;
  }

  bool test(size_t place) {
    const Result<bool> done = under_way_[place]->call().test();
    if (!rank_.good(done, "test of " + under_way_[place]->describe())) return false;
    return !*done || ended(place);
  }
  bool ended(size_t place) {
    const Posted& call = *under_way_[place];
    if (!call.right()) rank_.complain("wrong data in " + call.describe());
    under_way_[place] = under_way_.back();
    under_way_.pop_back();
    return call.right();
  }

  const RankView& rank_;
  const Work& work_;
  std::mt19937 random_;
  std::vector<decltype(rank_.context.create_group({}))::value_type> groups_;
  std::vector<std::unique_ptr<Posted>> persistent_, made_;
  std::vector<Posted*> under_way_;
};

/// What carries the messages.
struct Way {
  const char* name;
  std::vector<int> layout;
  const char* transport;
  uint64_t loopback_seed = 0;
};

class MixedCalls : public ::testing::TestWithParam<Way> {
 protected:
  /// `rounds`: so many times a part of the calls is under way, all of a part at once.
  static void run(uint32_t seed, uint32_t calls, uint32_t rounds) {
    const Way& way = GetParam();
    if (std::string_view(way.transport) == "verbs") {
      // Whole machines stall for longer than the default bears where a host is overloaded.
      setenv("IBCOLL_ACK_TIMEOUT", "18", 0);
      if (!usable_network_port("verbs"))
        GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    }
    JobOptions job;
    job.shape = Shape::from_layout(way.layout, Placement::kBlock).value();
    job.context.transport = way.transport;
    job.context.loopback_seed = way.loopback_seed;
    const Work work = some_work(seed, job.shape.ranks(), calls, rounds);
    SCOPED_TRACE(fmt::format("{}, seed {}", way.name, seed));
    EXPECT_EQ(run_job(job, [&](const RankView& rank) { Worker(rank, work, seed).run(); }), "");
  }
};

TEST_P(MixedCalls, InAnyOrderOnFiftyGroups) {
  run(1, 600, 1);
  run(2, 600, 3);
}

class MixedCallsFull : public MixedCalls {};

TEST_P(MixedCallsFull, TenThousandAtOnce) { run(3, 10'000, 1); }
TEST_P(MixedCallsFull, TenThousandInTenRounds) {
  run(4, 10'000, 10);
  run(5, 10'000, 10);
}

const Way kWays[] = {{"shm", {5}, "auto"},
                     {"loopback", {2, 1, 2}, "loopback"},
                     {"adversarial", {2, 1, 2}, "loopback", 12345},
                     {"verbs", {2, 1, 2}, "verbs"}};
std::string name_of(const ::testing::TestParamInfo<Way>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Ways, MixedCalls, ::testing::ValuesIn(kWays), name_of);
INSTANTIATE_TEST_SUITE_P(Ways, MixedCallsFull, ::testing::ValuesIn(kWays), name_of);

}  // namespace
}  // namespace ibcoll
