// Whom a rank that is late holds up in a multicast that goes from server to server: those that get
// data through it, and nobody else.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/multicast_job.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::acknowledged;
using testing::ApiRank;
using testing::Letter;
using testing::meet;
using testing::MulticastWay;
using testing::SentLetter;
using testing::SharedFlags;

constexpr size_t kBytes = 96 * 1024;

/// Rank 0 sends to all, so place 0 is rank 1's server.
struct LateRank {
  const char* name;
  const char* algorithm;
  unsigned pieces;
  const char* layout;
  int ranks;
  int late;
  std::vector<int> below = {};  ///< get data through it
  int loopback_seed = 0;

  friend void PrintTo(const LateRank& rank, std::ostream* out) { *out << rank.name; }
};

class MulticastLateRank : public ::testing::TestWithParam<LateRank> {};

/// Takes messages until it has all of these, those of one master in this order.
bool receive_all(const ApiRank& rank, std::vector<Letter> letters) {
  while (!letters.empty()) {
    const ibcoll_message* message = nullptr;
    if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), "receive")) return false;
    const auto next = std::find_if(letters.begin(), letters.end(), [&](const Letter& letter) {
      return letter.master == message->master;
    });
    if (next == letters.end()) {
      rank.complain(fmt::format("a message of rank {} too many", message->master));
      return false;
    }
    const std::string wrong = testing::wrong_in(rank, *message, *next);
    if (!wrong.empty()) rank.complain(wrong);
    rank.good(ibcoll_message_free(rank.context, message), "free a message");
    letters.erase(next);
  }
  return true;
}

/// The late rank is in no call until all that need nothing of it have everything.
TEST_P(MulticastLateRank, HoldsUpOnlyThoseThatGetDataThroughIt) {
  const LateRank& param = GetParam();
  std::vector<int> all(static_cast<size_t>(param.ranks)), in_time;
  std::iota(all.begin(), all.end(), 0);
  const auto is_below = [&](int rank) {
    return std::find(param.below.begin(), param.below.end(), rank) != param.below.end();
  };
  for (const int rank : all) {
    if (rank != param.late && !is_below(rank)) in_time.push_back(rank);
  }
  const int other_master = in_time.back();
  const Letter to_all{0, all, kBytes, 1}, next{0, in_time, kBytes / 2, 2},
      of_other{other_master, in_time, kBytes / 3, 3};
  SharedFlags& flags = SharedFlags::create();
  const MulticastWay way{param.name, param.layout, param.ranks, nullptr, param.loopback_seed};
  const auto body = [&](const ApiRank& rank) {
    const int me = ibcoll_rank(rank.context);
    ibcoll_multicast_options options = acknowledged();
    options.algorithm = param.algorithm;
    options.pieces = param.pieces;
    std::vector<std::unique_ptr<SentLetter>> sent;
    for (const Letter& letter : {to_all, next, of_other}) {
      if (letter.master != me) continue;
      sent.push_back(std::make_unique<SentLetter>(rank, letter));
      if (!sent.back()->start_sometime(options)) return;
    }
    if (std::find(in_time.begin(), in_time.end(), me) != in_time.end()) {
      if (!receive_all(rank, {to_all, next, of_other})) return;
      flags.raise(0);
    } else {
      if (me == param.late) flags.await(0, static_cast<int>(in_time.size()));
      if (!receive_all(rank, {to_all})) return;
    }
    for (const auto& letter : sent) {
      if (!rank.good(letter->wait(), letter->letter().describe())) return;
    }
    meet(rank);
  };
  EXPECT_EQ(testing::run_multicasts(way, {}, body), "");
}

const LateRank kLateRanks[] = {
    {"binomial", "binomial", 1, "1,1,1,1,1,1", 6, 5},
    {"binomial_in_pieces", "binomial", 16, "1,1,1,1,1,1", 6, 5},
    {"binomial_with_some_below", "binomial", 5, "1,2,1,1,1,1,1", 8, 4, {5}},
    {"binomial_adversarial", "binomial", 7, "2,1,2,1", 6, 5, {}, 77},
    {"member_of_a_server", "binomial", 16, "1,3", 4, 2},
    {"chain", "chain", 12, "1,2,1,1,1", 6, 4, {5}},
    {"scatter_ring", "scatter_ring", 1, "1,1,1,1,1,1", 6, 5},
    {"scatter_ring_with_some_behind", "scatter_ring", 1, "1,1,2,1,1,1,1", 8, 5, {6, 7}},
    {"scatter_doubling", "scatter_doubling", 1, "1,1,1,1,1", 5, 3, {4}},
    {"circulant", "circulant", 1, "1,1,1,1,1,1", 6, 2, {5}},
    {"member_of_a_server_of_parts", "circulant", 64, "1,1,3", 5, 3},
};
INSTANTIATE_TEST_SUITE_P(All, MulticastLateRank, ::testing::ValuesIn(kLateRanks), testing::named);

}  // namespace
}  // namespace ibcoll
