// Programs with packed lanes are carried out as those that are not.

#include <gtest/gtest.h>

#include <compare>
#include <memory>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/execute/executor.h"
#include "perf/support/empty_transports.h"

namespace ibcoll {
namespace {

/// What a rank asks of its server, in the order in which it does.
class RecordingLocal : public perf::EmptyLocal {
 public:
  struct Message {
    bool out;
    Rank peer;
    bool token;
    const void* place;
    size_t bytes;
    auto operator<=>(const Message&) const = default;
  };

  Offer offer(Rank peer, const MessageKey& key, const void* source, size_t bytes,
              uint32_t&) override {
    messages.push_back({true, peer, key.token, source, bytes});
    return messages.size() % 7 == 0 ? Offer::kNoRoom : Offer::kDone;
  }
  Pull pull(Rank peer, const MessageKey& key, void* target, size_t bytes, bool, size_t&) override {
    messages.push_back({false, peer, key.token, target, bytes});
    return messages.size() % 5 == 0 ? Pull::kNotYet : Pull::kDone;
  }

  std::vector<Message> messages;
};

/// Messages of one rank of a server in a call of that program.
std::vector<RecordingLocal::Message> messages_of(const Shape& shape, const RankProgram& program) {
  static std::vector<std::byte> memory(1 << 20);
  perf::LoneBootstrap bootstrap(shape.ranks());
  RecordingLocal local;
  Bell bell;
  Executor executor(bootstrap, local, nullptr, bell, [] { return std::nullopt; }, {});
  GroupState group(shape);
  group.me = program.me;
  group.to_job = RankList::consecutive(0, static_cast<size_t>(shape.ranks()));
  Binding binding;
  binding.block_bytes = 64;
  binding.pieces = 2;
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch})
    binding[buffer].base = memory.data() + (static_cast<size_t>(buffer) << 18);
  Completion completion;
  executor.enter(group);
  EXPECT_TRUE(executor.post(group, program, binding, completion));
  for (int round = 0; round < 100'000 && !completion.done; ++round) executor.progress();
  EXPECT_TRUE(completion.done) << program.algorithm;
  return std::move(local.messages);
}

TEST(PackedPrograms, AskForTheSameMessagesInTheSameOrder) {
  const Shape shape = Shape::single_server(300);
  size_t packed = 0;
  for (const Algorithm& algorithm : algorithms()) {
    const Collective kind = algorithm.collective;
    if (algorithm.spec->planned || has_graph(kind) || reduces(kind) || is_unequal(kind)) continue;
    for (const Rank me : {0, 170, 299}) {
      const ProgramPtr plain = algorithm.build(shape, me, {});
      if (plain->has_uneven_slots()) continue;
      const ProgramPtr small = pack_lists(plain, 100);
      if (!small->lane(Lane::kLocal).is_packed()) continue;
      ++packed;
      EXPECT_EQ(messages_of(shape, *small), messages_of(shape, *plain))
          << to_string(kind) << ' ' << algorithm.name << ", rank " << me;
    }
  }
  EXPECT_GT(packed, 10u);
}

}  // namespace
}  // namespace ibcoll
