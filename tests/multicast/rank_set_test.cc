// Sets of ranks: what they answer, how short they travel, what is refused; mails and roles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "engine/multicast/mail_parts.h"
#include "engine/multicast/rank_set.h"
#include "engine/multicast/role.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kMany = 100000;

RankSet set_of(const std::vector<Rank>& members, int ranks = kMany) {
  return RankSet::create(members, ranks).value();
}

/// Members drawn in one of the ways that groups arise: scattered, in runs, nearly all, in strides.
std::vector<Rank> draw_members(int ranks) {
  const int way = *rc::gen::inRange(0, 4);
  std::set<Rank> members;
  if (way == 0) {
    const auto drawn = *rc::gen::container<std::vector<Rank>>(rc::gen::inRange(0, ranks));
    members.insert(drawn.begin(), drawn.end());
  } else if (way == 1) {
    for (const auto& [first, length] : *rc::gen::container<std::vector<std::pair<Rank, int>>>(
             rc::gen::pair(rc::gen::inRange(0, ranks), rc::gen::inRange(1, 200)))) {
      for (Rank rank = first; rank < std::min(ranks, first + length); ++rank) members.insert(rank);
    }
  } else if (way == 2) {
    for (Rank rank = 0; rank < ranks; ++rank) members.insert(rank);
    for (const Rank out : *rc::gen::container<std::vector<Rank>>(rc::gen::inRange(0, ranks))) {
      members.erase(out);
    }
  } else {
    const int stride = *rc::gen::inRange(1, 100);
    for (Rank rank = *rc::gen::inRange(0, ranks); rank < ranks; rank += stride) {
      members.insert(rank);
    }
  }
  return {members.begin(), members.end()};
}

RC_GTEST_PROP(RankSets, AnswerAsTheListTheyWereMadeOf, ()) {
  const int ranks = *rc::gen::inRange(1, 3000);
  std::vector<Rank> members = draw_members(ranks);
  std::vector<Rank> shuffled = members;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
  const RankSet set = set_of(shuffled, ranks);
  RC_ASSERT(set.members() == members);
  RC_ASSERT(set.size() == static_cast<int>(members.size()));
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto at = std::lower_bound(members.begin(), members.end(), rank);
    const bool is_in = at != members.end() && *at == rank;
    RC_ASSERT(set.contains(rank) == is_in);
    RC_ASSERT(set.id_of(rank).has_value() == is_in);
    if (is_in) RC_ASSERT(*set.id_of(rank) == at - members.begin());
  }
  for (int id = 0; id < set.size(); ++id) RC_ASSERT(set.rank_of(id) == members[id]);
}

RC_GTEST_PROP(RankSets, PartsAreSetsOfTheirMembers, ()) {
  const int ranks = *rc::gen::inRange(1, 3000);
  const std::vector<Rank> members = draw_members(ranks);
  const RankSet set = set_of(members, ranks);
  const int first = *rc::gen::inRange(0, set.size() + 1);
  const int end = *rc::gen::inRange(first, set.size() + 1);
  const RankSet part = set.part(first, end);
  RC_ASSERT(part.members() == std::vector<Rank>(members.begin() + first, members.begin() + end));
  RC_ASSERT(part == set_of(part.members(), ranks));
  RC_ASSERT(part.encode() == set_of(part.members(), ranks).encode());
}

RC_GTEST_PROP(RankSets, AreThoseOfTheirBitmaps, ()) {
  const int ranks = *rc::gen::inRange(1, 1000);
  const std::vector<Rank> members = draw_members(ranks);
  std::vector<uint64_t> words(static_cast<size_t>(ranks) / 64 + 1);
  for (const Rank rank : members) words[rank / 64] |= uint64_t{1} << rank % 64;
  RC_ASSERT(RankSet::from_bitmap(words, ranks).value() == set_of(members, ranks));
}

RC_GTEST_PROP(RankSets, WithoutAMemberAreThoseOfTheOthers, ()) {
  const int ranks = *rc::gen::inRange(1, 1000);
  const std::vector<Rank> members = draw_members(ranks);
  const RankSet set = set_of(members, ranks);
  for (const Rank rank : members) {
    std::vector<Rank> others = members;
    std::erase(others, rank);
    RC_ASSERT(set.without(rank) == set_of(others, ranks));
  }
}

RC_GTEST_PROP(RankSets, TravelWholeAndShort, ()) {
  const int ranks = *rc::gen::inRange(1, kMany);
  const RankSet set = set_of(draw_members(ranks), ranks);
  const auto encoded = set.encode();
  RC_ASSERT(RankSet::decode_all(encoded, ranks).value() == set);
  RC_ASSERT(encoded.size() <= 13 * 1000u);
  RC_ASSERT(encoded.size() <= 9u + 3 * set.size());  // ranks under 2^21 have 3 bytes
}

TEST(RankSets, TakeThirteenKilobytesAtMostForAHundredThousandRanks) {
  std::mt19937 random(7);
  for (const double density : {0.001, 0.03, 0.1, 0.2, 0.5, 0.9, 0.999}) {
    std::vector<Rank> members;
    std::bernoulli_distribution is_in(density);
    for (Rank rank = 0; rank < kMany; ++rank) {
      if (is_in(random)) members.push_back(rank);
    }
    EXPECT_LE(set_of(members).encode().size(), 13000u) << density;
  }
  EXPECT_LE(RankSet::interval(0, kMany).encode().size(), 16u);
  std::vector<Rank> every_other;
  for (Rank rank = 1; rank < kMany; rank += 2) every_other.push_back(rank);
  EXPECT_LE(set_of(every_other).encode().size(), 13000u);
}

TEST(RankSets, TakeLessThan64BytesForTenMembers) {
  std::mt19937 random(11);
  for (int i = 0; i < 1000; ++i) {
    std::set<Rank> members{0, kMany - 1};
    while (members.size() < 10) members.insert(static_cast<Rank>(random() % kMany));
    EXPECT_LT(set_of({members.begin(), members.end()}).encode().size(), 64u);
  }
}

/// Runs of two and three members, which a byte stands for, and one for what is between them.
TEST(RankSets, AreWrittenInTheShortestForm) {
  constexpr int kRuns = 100, kBetween = 127;
  std::vector<Rank> members;
  Rank next = 0;
  for (int run = 0; run < kRuns; ++run, next += kBetween) {
    for (const Rank end = next + 2 + run % 2; next < end; ++next) members.push_back(next);
  }
  EXPECT_LE(set_of(members).encode().size(), 2u * kRuns + 4);
}

TEST(RankSets, MayBeEmptyAndHoldTheLargestRank) {
  EXPECT_TRUE(RankSet::decode_all(RankSet().encode(), 0).value().empty());
  EXPECT_FALSE(RankSet().contains(0));
  EXPECT_THAT(RankSet().members(), IsEmpty());
  const RankSet last = set_of({INT32_MAX - 1}, INT32_MAX);
  EXPECT_EQ(last.rank_of(0), INT32_MAX - 1);
  EXPECT_EQ(RankSet::decode_all(last.encode(), INT32_MAX).value(), last);
  EXPECT_FALSE(last.contains(0));
}

TEST(RankSets, RefuseMembersThatCannotBe) {
  EXPECT_THAT(RankSet::create(std::vector<Rank>{1, -2}, 4).error().message, HasSubstr("rank -2"));
  EXPECT_THAT(RankSet::create(std::vector<Rank>{1, 4}, 4).error().message, HasSubstr("rank 4"));
  EXPECT_THAT(RankSet::create(std::vector<Rank>{3, 1, 3}, 4).error().message, HasSubstr("twice"));
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

std::string refusal(const std::vector<std::byte>& encoded, int ranks = 64) {
  const auto set = RankSet::decode_all(encoded, ranks);
  return set ? "no error" : set.error().message;
}

TEST(RankSets, RefuseEncodingsThatNobodyWrites) {
  EXPECT_EQ(refusal(bytes({0, 2, 5, 3})), "no error");
  EXPECT_THAT(refusal({}), HasSubstr("ends before"));
  EXPECT_THAT(refusal(bytes({3, 1, 0})), HasSubstr("form 3"));
  EXPECT_THAT(refusal(bytes({0, 65, 0})), HasSubstr("number of members is 65"));
  EXPECT_THAT(refusal(bytes({0, 1, 64})), HasSubstr("first member is 64"));
  EXPECT_THAT(refusal(bytes({0, 2, 60, 3})), HasSubstr("rank 64 of 64"));
  EXPECT_THAT(refusal(bytes({0, 2, 5})), HasSubstr("ends inside"));
  EXPECT_THAT(refusal(bytes({0, 2, 5, 3, 0})), HasSubstr("behind it"));
  EXPECT_THAT(refusal(bytes({0, 0x82, 0, 5, 3})), HasSubstr("longer than need be"));
  EXPECT_THAT(refusal(bytes({0, 0xff, 0xff, 0xff, 0xff, 0xff, 1})), HasSubstr("longer than 5"));
  EXPECT_THAT(refusal(bytes({1, 8, 0, 7})), HasSubstr("no error"));
  EXPECT_THAT(refusal(bytes({1, 8, 0, 8})), HasSubstr("more than the 8"));
  EXPECT_THAT(refusal(bytes({1, 8, 0, 3, 59, 3})), HasSubstr("rank 67 of 64"));
  EXPECT_THAT(refusal(bytes({1, 2, 5, 0, 3, 0})), HasSubstr("not the shortest"));
  EXPECT_THAT(refusal(bytes({2, 3, 0, 9, 0x01, 0x02})), HasSubstr("announced"));
  EXPECT_THAT(refusal(bytes({2, 3, 0, 9, 0x01})), HasSubstr("inside a bitmap"));
  EXPECT_THAT(refusal(bytes({2, 2, 0, 9, 0x02, 0x02})), HasSubstr("neither begins nor ends"));
  EXPECT_THAT(refusal(bytes({2, 2, 0, 9, 0x01, 0x06})), HasSubstr("behind the end"));
  EXPECT_THAT(refusal(bytes({1, 0})), HasSubstr("no members"));
}

RC_GTEST_PROP(RankSets, ReadDamagedEncodingsSafely, ()) {
  const int ranks = *rc::gen::inRange(1, 2000);
  auto encoded = set_of(draw_members(ranks), ranks).encode();
  const int damages = *rc::gen::inRange(1, 4);
  for (int i = 0; i < damages && !encoded.empty(); ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, encoded.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        encoded[at] = static_cast<std::byte>(*rc::gen::inRange(0, 256));
        break;
      case 1:
        encoded.resize(at);
        break;
      default:
        encoded.insert(encoded.begin() + static_cast<std::ptrdiff_t>(at), std::byte{0x80});
    }
  }
  // A heap block of just this size: the address sanitizer sees a read past its end.
  const std::vector<std::byte> exact(encoded.begin(), encoded.end());
  const auto set = RankSet::decode_all(exact, ranks);
  if (!set) return;
  RC_ASSERT(set->encode() == exact);  // what is taken is what would have been written
  if (!set->empty()) RC_ASSERT(set->rank_of(set->size() - 1) < ranks);
}

RC_GTEST_PROP(Mails, PutTogetherWhatWasCutInAnyOrder, ()) {
  const auto length = *rc::gen::inRange<size_t>(0, 20000);
  const auto mail_bytes = *rc::gen::inRange<size_t>(kMailPartHead + 1, 5000);
  std::vector<std::byte> whole(length);
  for (size_t i = 0; i < length; ++i) whole[i] = static_cast<std::byte>(i * 31 + i / 251);
  auto mails = cut_into_mails(whole, mail_bytes).value();
  for (const auto& mail : mails) RC_ASSERT(mail.size() <= mail_bytes);
  std::shuffle(mails.begin(), mails.end(), std::mt19937(3));
  MailParts parts(length);
  for (size_t i = 0; i < mails.size(); ++i) {
    RC_ASSERT(parts.add(mails[i]).value() == (i + 1 == mails.size()));
  }
  RC_ASSERT(std::equal(whole.begin(), whole.end(), parts.whole().begin(), parts.whole().end()));
}

TEST(Mails, RefuseWhatDoesNotBelongTogether) {
  const std::vector<std::byte> whole(100, std::byte{5}), other(90, std::byte{6});
  const auto mails = cut_into_mails(whole, 40).value();
  ASSERT_EQ(mails.size(), 4u);
  const auto error = [](MailParts& parts, std::vector<std::byte> mail) {
    const auto taken = parts.add(mail);
    return taken ? std::string("no error") : taken.error().message;
  };
  MailParts parts(100);
  EXPECT_EQ(error(parts, mails[2]), "no error");
  EXPECT_THAT(error(parts, mails[2]), HasSubstr("twice"));
  EXPECT_THAT(error(parts, cut_into_mails(other, 40).value()[0]), HasSubstr("among 4 of 100"));
  EXPECT_THAT(error(parts, bytes({1, 2, 3})), HasSubstr("shorter than its head"));
  auto shorter = mails[0];
  shorter.pop_back();
  EXPECT_THAT(error(parts, shorter), HasSubstr("has 24 bytes, not 25"));
  EXPECT_THAT(error(parts, bytes({100, 0, 0, 0, 4, 0, 4, 0})), HasSubstr("part 4 of 4"));
  EXPECT_THAT(error(parts, bytes({1, 0, 0, 0, 0, 0, 4, 0})), HasSubstr("part 0 of 4 of 1"));
  EXPECT_THAT(error(parts, bytes({101, 0, 0, 0, 0, 0, 4, 0})), HasSubstr("limit of 100"));
  for (const size_t i : {0, 1, 3}) EXPECT_EQ(error(parts, mails[i]), "no error");
  EXPECT_TRUE(parts.complete());
  EXPECT_FALSE(cut_into_mails(whole, kMailPartHead).has_value());
  EXPECT_TRUE(cut_into_mails(std::vector<std::byte>(65535), kMailPartHead + 1).has_value());
  EXPECT_FALSE(cut_into_mails(std::vector<std::byte>(65536), kMailPartHead + 1).has_value());
}

/// A job whose servers have one to five ranks, dealt at random.
Shape draw_job(int ranks, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> server_of;
  for (int server = 0; static_cast<int>(server_of.size()) < ranks; ++server) {
    server_of.insert(server_of.end(), 1 + random() % 5, server);
  }
  server_of.resize(ranks);
  if (seed % 2 == 1) std::shuffle(server_of.begin(), server_of.end(), random);
  // Servers count from 0 without holes, which cutting off keeps.
  return Shape::create(server_of).value();
}

/// The roles of all places, each derived from what its parent was told and through the bytes
/// between them, beside the members each has below it.
std::map<int, MulticastPart> spread(const RankSet& set, const Shape& job, Relatives relatives) {
  std::map<int, MulticastPart> parts;
  std::vector<MulticastRole> open{root_role(set, job, relatives)};
  while (!open.empty()) {
    std::vector<std::byte> mail;
    encode(open.back(), mail);
    std::span<const std::byte> in = mail;
    const MulticastRole role = decode_role(in, job.ranks()).value();
    EXPECT_TRUE(in.empty());
    EXPECT_EQ(role, open.back());
    open.pop_back();
    const auto part = MulticastPart::create(role, job).value();
    EXPECT_TRUE(parts.emplace(role.place, part).second) << "two come to place " << role.place;
    for (const int child : part.children()) open.push_back(part.child(child));
  }
  return parts;
}

RC_GTEST_PROP(Roles, ReachEveryMemberOnceFromWhatParentsKnow, ()) {
  const int ranks = *rc::gen::inRange(1, 300);
  const Shape job = draw_job(ranks, *rc::gen::inRange(0u, 1000u));
  const std::vector<Rank> members = draw_members(ranks);
  RC_PRE(!members.empty());
  const RankSet set = set_of(members, ranks);
  for (const Relatives relatives :
       {Relatives::kChildren, Relatives::kRing, Relatives::kEverybody}) {
    const auto parts = spread(set, job, relatives);
    std::vector<Rank> by_id(members.size(), -1);
    for (const auto& [place, part] : parts) {
      RC_ASSERT(part.role().members == set.size());
      int id = part.role().first_id;
      for (const Rank rank : part.locals()) {
        RC_ASSERT(job.same_server(rank, part.locals().front()));
        RC_ASSERT(by_id[id] == -1);
        by_id[id++] = rank;
      }
    }
    RC_ASSERT(by_id.front() == members.front());  // the lowest member is the root
    std::vector<Rank> sorted = by_id;
    std::sort(sorted.begin(), sorted.end());
    RC_ASSERT(sorted == members);
    const int places = static_cast<int>(parts.size());
    RC_ASSERT(parts.begin()->second.role().servers == places);
    for (int place = 0; place < places && relatives == Relatives::kRing; ++place) {
      const MulticastPart& part = parts.at(place);
      RC_ASSERT(part.next() == parts.at((place + 1) % places).locals().front());
      RC_ASSERT(part.role().previous == parts.at((place + places - 1) % places).locals().front());
    }
    for (int other = 0; other < places && relatives == Relatives::kEverybody; ++other) {
      RC_ASSERT(parts.at(places / 2).leader(other) == parts.at(other).locals().front());
    }
  }
}

TEST(Roles, IdsArePositionsWhereServersHoldConsecutiveRanks) {
  const Shape job = Shape::from_layout(std::vector<int>{3, 1, 4}, Placement::kBlock).value();
  const RankSet set = set_of({1, 2, 3, 5, 7}, 8);
  for (const auto& [place, part] : spread(set, job, Relatives::kChildren)) {
    EXPECT_EQ(part.role().first_id, set.id_of(part.locals().front())) << place;
  }
}

TEST(Roles, TellAChildNoMoreThanItsSubtreeNeeds) {
  std::vector<int> one_each(kMany, 1);
  const Shape job = Shape::from_layout(one_each, Placement::kBlock).value();
  std::mt19937 random(5);
  std::set<Rank> members;
  while (members.size() < 5000) members.insert(static_cast<Rank>(random() % kMany));
  const RankSet set = set_of({members.begin(), members.end()});
  for (const Relatives relatives : {Relatives::kChildren, Relatives::kRing}) {
    for (const auto& [place, part] : spread(set, job, relatives)) {
      std::vector<std::byte> mail;
      encode(part.role(), mail);
      EXPECT_LE(mail.size(), 24u + 3u * part.role().known.size()) << "place " << place;
    }
  }
}

TEST(Roles, RefuseWhatCannotBe) {
  const Shape job = Shape::from_layout(std::vector<int>{2, 2, 2, 2}, Placement::kBlock).value();
  const MulticastRole root = root_role(RankSet::interval(0, 8), job, Relatives::kRing);
  const auto error = [&](MulticastRole role) -> std::string {
    std::vector<std::byte> mail;
    encode(role, mail);
    std::span<const std::byte> in = mail;
    const auto read = decode_role(in, job.ranks());
    if (!read) return read.error().message;
    const auto part = MulticastPart::create(*read, job);
    return part ? "no error" : part.error().message;
  };
  EXPECT_EQ(error(root), "no error");
  const auto with = [&](auto change) {
    MulticastRole role = root;
    change(role);
    return error(role);
  };
  EXPECT_THAT(with([](MulticastRole& r) { r.members = 9; }), HasSubstr("members is 9"));
  EXPECT_THAT(with([](MulticastRole& r) { r.members = 7; }), HasSubstr("knows 8 members"));
  EXPECT_THAT(with([](MulticastRole& r) { r.servers = 5; }), HasSubstr("4 servers"));
  EXPECT_THAT(with([](MulticastRole& r) { r.servers = 0; }), HasSubstr("no servers"));
  EXPECT_THAT(with([](MulticastRole& r) { r.place = 4; }), HasSubstr("place is 4"));
  EXPECT_THAT(with([](MulticastRole& r) { r.place = 1; }), HasSubstr("logical id 0"));
  EXPECT_THAT(with([](MulticastRole& r) { r.first_id = 2; }), HasSubstr("no error"));
  EXPECT_THAT(with([](MulticastRole& r) { r.after = 8; }), HasSubstr("rank behind is 8"));
  EXPECT_THAT(with([](MulticastRole& r) { r.known = RankSet(); }), HasSubstr("no member"));
  std::vector<std::byte> mail;
  encode(root, mail);
  for (size_t length = 0; length < mail.size(); ++length) {
    const std::vector<std::byte> cut(mail.begin(),
                                     mail.begin() + static_cast<std::ptrdiff_t>(length));
    std::span<const std::byte> in = cut;
    EXPECT_FALSE(decode_role(in, job.ranks()).has_value()) << length;
  }
}

}  // namespace
}  // namespace ibcoll
