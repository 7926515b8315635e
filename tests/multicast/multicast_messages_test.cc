// What ranks tell each other of multicasts is believed only where it can be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/multicast/messages.h"
#include "tests/job.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using ::testing::HasSubstr;
using testing::job_of;
using testing::RankView;
using testing::run_job;

constexpr uint64_t kLongBytes = 1'000'000;

RankSet a_set(const std::vector<Rank>& members, int ranks) {
  return RankSet::create(members, ranks).value();
}

/// The second of three members at the second of two servers.
MulticastLocal member_of_five() {
  MulticastLocal told;
  told.facts.bytes = 4;
  told.members = 5;
  told.id = 3;
  told.servers = 2;
  told.place = 1;
  told.locals = 3;
  told.local = 1;
  told.listener = 6;
  return told;
}

TEST(MulticastMessages, ToAMemberAreRefusedWhereNoMulticastIsLikeThat) {
  constexpr int kRanks = 7;
  const auto is_taken = [](auto change) {
    MulticastLocal told = member_of_five();
    change(told);
    return decode_local(encode(told), kRanks).has_value();
  };
  EXPECT_TRUE(is_taken([](MulticastLocal&) {}));
  EXPECT_TRUE(is_taken([](MulticastLocal& told) { told.members = kRanks; }));
  EXPECT_TRUE(is_taken([](MulticastLocal& told) { told.id = 0; }));
  EXPECT_TRUE(is_taken([](MulticastLocal& told) { told.id = 4; }));
  EXPECT_TRUE(is_taken([](MulticastLocal& told) { told.local = 2; }));
  for (const int members : {-1, 0, kRanks + 1})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.members = members; })) << members;
  for (const int id : {-1, 5})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.id = id; })) << id;
  for (const int servers : {-1, 0, 6})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.servers = servers; })) << servers;
  for (const int place : {-1, 2})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.place = place; })) << place;
  for (const int locals : {0, 1, 6})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.locals = locals; })) << locals;
  for (const int local : {-1, 0, 3})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.local = local; })) << local;
  for (const Rank listener : {-1, kRanks})
    EXPECT_FALSE(is_taken([&](MulticastLocal& told) { told.listener = listener; })) << listener;
  std::vector<std::byte> cut = encode(member_of_five());
  cut.pop_back();
  EXPECT_FALSE(decode_local(cut, kRanks));
}

/// What rank 1 tells rank 0, and in which words both then hear that it can't be.
struct Told {
  MulticastHead head{1, 1, 1, MulticastMailKind::kStart, false, 0};
  std::vector<std::byte> body;
  size_t data_bytes = 0;
  int times = 1;
  std::string text;
};

Told start(std::vector<Rank> members, uint64_t bytes, size_t data_bytes, std::string text) {
  MulticastStart message;
  message.facts.bytes = bytes;
  message.set = a_set(members, 2);
  Told told;
  told.body = encode(message, told.head.counter);
  told.data_bytes = data_bytes;
  told.text = std::move(text);
  return told;
}

Told local(uint64_t bytes, uint32_t pieces, size_t data_bytes, std::string text) {
  MulticastLocal message;
  message.facts.bytes = bytes;
  message.facts.pieces = pieces;
  message.members = 2;
  message.id = 1;
  message.servers = 1;
  message.locals = 2;
  message.local = 1;
  message.listener = 1;
  Told told;
  told.head.kind = MulticastMailKind::kLocal;
  told.body = encode(message);
  told.data_bytes = data_bytes;
  told.text = std::move(text);
  return told;
}

Told role_of_others() {
  const Shape shape = Shape::single_server(2);
  Told told;
  told.head.kind = MulticastMailKind::kRole;
  told.body =
      encode(MulticastRoleMessage{{}, root_role(a_set({1}, 2), shape, Relatives::kChildren), {}},
             told.head.counter);
  told.text = "rank 1 tells this one a role in a multicast that it can't have";
  return told;
}

TEST(MulticastMessages, ThatCannotBeEndTheJobAndSayWhy) {
  std::vector<Told> all = {
      start({0}, 100, 50, "a multicast of 100 bytes comes with 50"),
      start({0}, kLongBytes, 50, "a multicast of 1000000 bytes comes with 50"),
      start({1}, 100, 100, "rank 1 takes this one for the root of a multicast"),
      local(100, 0, 50, "a multicast of 100 bytes comes with 50"),
      local(kLongBytes, 0, 0, "a multicast in 0 pieces"),
      local(100, 0, 100, "rank 1 tells of a multicast twice"),
      role_of_others(),
      start({0}, 100, 100, "names a rank that is not there"),
      start({0}, 100, 100, "is of no kind that there is"),
  };
  all[5].times = 2;
  all[7].head.master = 2;
  all[8].head.kind = static_cast<MulticastMailKind>(77);
  for (const Told& told : all) {
    SCOPED_TRACE(told.text);
    Complaints errors(2);
    int status = 0;
    run_job(
        job_of({2}),
        [&](const RankView& rank) {
          Context& context = rank.context;
          const EntryGuard::Entry entry(context.threads().guard());
          const std::vector<std::byte> data(told.data_bytes);
          for (int i = 0; context.rank() == 1 && i < told.times; ++i) {
            for_each_mail(told.head, told.body, data, [&](std::span<const std::byte> mail) {
              if (!context.job().local().offer_mail(0, mail)) errors.add(1, "there is no room");
            });
            context.job().local().poll();
          }
          const int64_t until = now_ns() + 10'000'000'000;
          Status ended;
          while (ended && now_ns() < until) {
            const auto message = context.multicasts().wait_for_message(until);
            if (!message) ended = tl::unexpected<Error>(message.error());
          }
          errors.add(context.rank(), ended ? "nobody has noticed" : ended.error().message);
        },
        &status);
    for (const Rank rank : {0, 1}) EXPECT_THAT(errors.of(rank), HasSubstr(told.text));
  }
}

}  // namespace
}  // namespace ibcoll
