/// What ranks of different servers tell each other once, and what each call costs them after that.

#include "engine/execute/mailroom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "engine/execute/exposure_mail.h"
#include "perf/support/empty_transports.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(Cells, OfAServerAreEnoughForManyCallsOfManyRanks) {
  // 800 servers of 128 ranks, each with eight calls of all of them under way.
  constexpr int kRanksOfAServer = 128, kCalls = 8;
  std::set<uint32_t> cells;
  for (int local = 0; local < kRanksOfAServer; ++local) {
    Cells own(Cells::share_of(local, kRanksOfAServer));
    std::array<PostedCall, kCalls> calls;
    for (PostedCall& call : calls) {
      const auto immediate = own.take(&call);
      ASSERT_TRUE(immediate);
      EXPECT_EQ(own.find(*immediate), &call);
      EXPECT_EQ(own.find(*immediate | Cell::kToken), &call);
      cells.insert(Cell::index(*immediate));
    }
  }
  EXPECT_THAT(cells, SizeIs(kRanksOfAServer * kCalls)) << "one is another rank's, too";
}

TEST(Cells, EachRankOfTheLargestServersHasThousands) {
  for (const int ranks : {1, 3, 192, 1024}) {
    std::vector<bool> taken(1u << Cell::kIndexBits);
    for (int local = 0; local < ranks; ++local) {
      const Cells::Share share = Cells::share_of(local, ranks);
      EXPECT_GE(share.count, 16384u);
      for (uint32_t i = 0; i < share.count; ++i) {
        ASSERT_FALSE(taken[share.first + i]);
        taken[share.first + i] = true;
      }
    }
  }
}

TEST(Cells, AreLentAgainAndLateSignalsAreTold) {
  Cells cells({5, 2});
  PostedCall first, second, third;
  const uint32_t a = *cells.take(&first), b = *cells.take(&second);
  EXPECT_FALSE(cells.take(&third)) << "all are lent";
  cells.give_back(a);
  EXPECT_EQ(cells.find(a), nullptr);
  const uint32_t again = *cells.take(&third);
  EXPECT_EQ(Cell::index(again), Cell::index(a));
  EXPECT_EQ(cells.find(again), &third);
  EXPECT_EQ(cells.find(a), nullptr) << "a signal of the earlier call";
  EXPECT_EQ(cells.find(b), &second);
  EXPECT_EQ(cells.find(Cell::pack(0, 4)), nullptr);
  EXPECT_EQ(cells.find(Cell::pack(1, 7)), nullptr);
}

/// Where memory keys are as long as a UCX one may be, and hold what they belong to.
class LongKeysNetwork : public perf::EmptyNetwork {
 public:
  size_t key_bytes = 300;
  std::vector<std::vector<std::byte>> mails;
  uint64_t released = 0;

  size_t pack_key(const MemoryKey& key, std::span<std::byte> packed) const override {
    std::memset(packed.data(), 0x5a, key_bytes);
    std::memcpy(packed.data() + key_bytes - sizeof(key.remote), &key.remote, sizeof(key.remote));
    return key_bytes;
  }
  Result<uint64_t> unpack_key(Rank, std::span<const std::byte> packed) override {
    if (packed.size() != key_bytes) return fail(ErrorCode::kInternal, "{} bytes", packed.size());
    uint64_t key = 0;
    std::memcpy(&key, packed.data() + key_bytes - sizeof(key), sizeof(key));
    return key;
  }
  void release_key(Rank, uint64_t) override { ++released; }
};

/// The keys and landings that an exposure's mail carries.
struct Opened {
  Exposure exposure;
  std::vector<RegionKey> keys;
  std::vector<Landing> landings;
};
Opened open_mail(NetworkTransport& network, PeerRegions& peer, std::span<const std::byte> mail) {
  Opened opened;
  std::memcpy(&opened.exposure, mail.data() + sizeof(MailHeader), sizeof(opened.exposure));
  size_t at = for_each_key(mail, [&](const RegionKey& key, std::span<const std::byte> packed) {
    opened.keys.push_back(key);
    EXPECT_TRUE(peer.learn(network, 7, key, packed));
  });
  for (; at < mail.size(); at += sizeof(Landing)) {
    Landing landing;
    std::memcpy(&landing, mail.data() + at, sizeof(landing));
    opened.landings.push_back(landing);
  }
  EXPECT_EQ(opened.landings.size(), opened.exposure.landings);
  return opened;
}

class ExposureMailTest : public ::testing::TestWithParam<size_t> {
 protected:
  /// Memory that is registered and named.
  RegisteredMemory enter(uint64_t remote, uint64_t registration, const std::byte* base) {
    const MemoryKey key{0, remote, registration};
    return {key, own_.enter(key, base)};
  }
  /// Sends one exposure with a landing in each of the memories; gives what arrives.
  Opened send(const OwnRegions::Receivers& to, std::span<const RegisteredMemory> memories,
              std::span<const std::byte* const> places, PeerRegions& receiver) {
    network_.key_bytes = GetParam();
    ExposureMail mail(memory_, own_, network_, to);
    for (size_t i = 0; i < memories.size(); ++i) {
      Landing landing{};
      landing.bytes = i;
      if (!mail.add(landing, memories[i], places[i])) break;
    }
    const auto bytes = mail.finish({}, {});
    EXPECT_LE(bytes.size(), NetworkTransport::kMaxMailBytes);
    Opened opened = open_mail(network_, receiver, bytes);
    EXPECT_EQ(opened.landings.size(), mail.landings());
    mail.note_sent();
    return opened;
  }

  LongKeysNetwork network_;
  OwnRegions own_;
  std::array<std::byte, NetworkTransport::kMaxMailBytes> memory_;
  std::array<std::byte, 1024> data_;
};

TEST_P(ExposureMailTest, AKeyTravelsOnceToEachReceiver) {
  PeerRegions peer, other;
  const std::vector<RegisteredMemory> memory{enter(41, 1, data_.data())};
  const std::vector<const std::byte*> place{data_.data() + 100};
  for (int call = 0; call < 3; ++call) {
    const Opened opened = send({1, 0}, memory, place, peer);
    EXPECT_THAT(opened.keys, SizeIs(call == 0 ? 1 : 0));
    const RemoteAddress target = peer.find(7, opened.landings.at(0).place);
    EXPECT_EQ(target.address, reinterpret_cast<uint64_t>(place[0]));
    EXPECT_EQ(target.key, 41u);
  }
  EXPECT_THAT(send({1, 70}, memory, place, other).keys, SizeIs(1)) << "another server";
  EXPECT_THAT(send({2, 0}, memory, place, peer).keys, SizeIs(1)) << "another group's ranks";
  EXPECT_EQ(network_.released, 0u) << "of the same memory";
}

TEST_P(ExposureMailTest, MemoryThatIsRegisteredAgainIsTold) {
  PeerRegions peer;
  const std::vector<const std::byte*> place{data_.data()};
  RegionPlace before;
  for (uint64_t key = 1; key <= 3; ++key) {  // registrations that are not kept
    const std::vector<RegisteredMemory> memory{enter(key, 0, data_.data())};
    const Opened opened = send({1, 0}, memory, place, peer);
    ASSERT_THAT(opened.keys, SizeIs(1));
    EXPECT_EQ(opened.keys[0].region.slot, 0u) << "the peers' tables grow";
    EXPECT_EQ(peer.find(7, opened.landings.at(0).place).key, key);
    if (key > 1) {
      EXPECT_EQ(peer.find(7, before).address, PeerRegions::kUnknown);
    }
    before = opened.landings.at(0).place;
    own_.leave(memory[0].region);
  }
  EXPECT_EQ(network_.released, 2u);
}

TEST_P(ExposureMailTest, ARegistrationThatIsUsedAgainIsKnown) {
  PeerRegions peer;
  // More than are remembered, so that the first ones give way.
  std::vector<size_t> keys_sent;
  for (const uint64_t number : {1, 2, 1, 3, 2, 1}) {
    const std::vector<RegisteredMemory> memory{enter(number, number, data_.data() + 8 * number)};
    const std::vector<const std::byte*> place{data_.data() + 8 * number - 4};  // ahead of the first
    const Opened opened = send({1, 0}, memory, place, peer);
    keys_sent.push_back(opened.keys.size());
    EXPECT_EQ(peer.find(7, opened.landings.at(0).place).address,
              reinterpret_cast<uint64_t>(place[0]));
    own_.leave(memory[0].region);
  }
  EXPECT_THAT(keys_sent, ElementsAre(1, 1, 0, 1, 0, 0));
  for (uint64_t number = 10; number < 10 + 2 * OwnRegions::kRemembered; ++number)
    own_.leave(enter(number, number, data_.data()).region);
  const std::vector<RegisteredMemory> memory{enter(1, 1, data_.data())};
  const std::vector<const std::byte*> place{data_.data()};
  const Opened opened = send({1, 0}, memory, place, peer);
  EXPECT_THAT(opened.keys, SizeIs(1)) << "it has given way";
  EXPECT_LT(memory[0].region.slot, OwnRegions::kRemembered + 1) << "the table grows";
}

TEST_P(ExposureMailTest, KeysAndLandingsShareTheMail) {
  PeerRegions peer;
  std::vector<RegisteredMemory> memories;
  std::vector<const std::byte*> places;
  for (uint64_t i = 0; i < 200; ++i) {
    memories.push_back(enter(i, 100 + i, data_.data() + 4 * i));
    places.push_back(data_.data() + 4 * i);
  }
  size_t sent = 0, mails = 0;
  while (sent < memories.size()) {
    const Opened opened = send({1, 0}, std::span(memories).subspan(sent),
                               std::span<const std::byte* const>(places).subspan(sent), peer);
    ASSERT_FALSE(opened.landings.empty());
    for (size_t i = 0; i < opened.landings.size(); ++i) {
      EXPECT_EQ(opened.landings[i].bytes, i) << "landings are in order";
      const RemoteAddress target = peer.find(7, opened.landings[i].place);
      EXPECT_EQ(target.address, reinterpret_cast<uint64_t>(places[sent + i]));
      EXPECT_EQ(target.key, sent + i);
    }
    sent += opened.landings.size();
    ++mails;
  }
  EXPECT_GT(mails, 1u);
}

TEST_P(ExposureMailTest, AKeyTravelsOnceInAMailHoweverManyLandThere) {
  PeerRegions peer;
  const std::vector<RegisteredMemory> memories(3, enter(41, 1, data_.data()));
  const std::vector<const std::byte*> places{data_.data(), data_.data() + 8, data_.data() + 16};
  const Opened opened = send({1, 0}, memories, places, peer);
  EXPECT_THAT(opened.keys, SizeIs(1));
  EXPECT_THAT(opened.landings, SizeIs(3));
}

TEST_P(ExposureMailTest, NothingIsKnownOfWhatWasNotTold) {
  PeerRegions peer;
  const std::vector<const std::byte*> place{data_.data()};
  const Opened opened = send({1, 0}, std::vector{enter(41, 1, data_.data())}, place, peer);
  const RegionPlace told = opened.landings.at(0).place;
  EXPECT_NE(peer.find(7, told).address, PeerRegions::kUnknown);
  EXPECT_EQ(peer.find(8, told).address, PeerRegions::kUnknown) << "another rank's";
  RegionPlace later = told;
  ++later.region.use;
  EXPECT_EQ(peer.find(7, later).address, PeerRegions::kUnknown) << "told of an earlier use";
}

TEST_P(ExposureMailTest, WhatComesLateReplacesNothing) {
  PeerRegions peer;
  const std::vector<const std::byte*> place{data_.data()};
  const MemoryKey old_key{0, 1, 0};
  const RegionName old_name = own_.enter(old_key, data_.data());
  own_.leave(old_name);
  const std::vector<RegisteredMemory> memory{enter(2, 0, data_.data())};
  const Opened opened = send({1, 0}, memory, place, peer);
  std::vector<std::byte> packed(GetParam());
  network_.pack_key(old_key, packed);
  const RegionKey late{old_name, 0, static_cast<uint32_t>(packed.size())};
  EXPECT_TRUE(peer.learn(network_, 7, late, packed));
  EXPECT_EQ(peer.find(7, opened.landings.at(0).place).key, 2u);
}

INSTANTIATE_TEST_SUITE_P(KeyBytes, ExposureMailTest, ::testing::Values(8, 13, 300, 1024));

}  // namespace
}  // namespace ibcoll
