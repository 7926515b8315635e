// Ways to peers' ports are looked for in threads, so that one that takes long holds up no other.

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "engine/base/clock.h"
#include "tests/verbs/port_address.h"
#include "verbs/way_finder.h"

namespace ibcoll::verbs {
namespace {

using ibcoll::testing::address;

/// Lookups that end when the test says so, or at once. Its members outlive the finder.
class Lookups {
 public:
  Lookups() : finder_(*WayFinder::create([this](const PortAddress& peer) { return look(peer); })) {}
  ~Lookups() {
    open_ = true;
    finder_.reset();
  }
  /// From now on lookups of this port wait until release().
  void hold(uint16_t lid) { held_ = lid; }
  void release() { open_ = true; }
  void refuse(bool refused) { refused_ = refused; }
  int asked(uint16_t lid) {
    const std::lock_guard lock(mutex_);
    return asked_[lid];
  }
  WayFinder& finder() { return *finder_; }
  /// What comes of a lookup.
  Result<WayFinder::Found> wait(uint16_t lid, int64_t not_before_ns = 0) {
    for (;;) {
      Result<WayFinder::Found> found = finder_->find(address(lid), not_before_ns);
      if (!found || *found != nullptr) return found;
      std::this_thread::yield();
    }
  }

 private:
  Result<Way> look(const PortAddress& peer) {
    {
      const std::lock_guard lock(mutex_);
      ++asked_[peer.lid];
    }
    while (peer.lid == held_ && !open_) std::this_thread::yield();
    if (refused_) return fail(ErrorCode::kPeerFailed, "nobody there");
    Way way;
    way.attributes.dlid = peer.lid;
    return way;
  }

  std::atomic<int> held_{-1};
  std::atomic<bool> open_{false}, refused_{false};
  std::mutex mutex_;
  std::map<uint16_t, int> asked_;
  std::unique_ptr<WayFinder> finder_;
};

TEST(VerbsWays, OneThatTakesLongHoldsUpNoOther) {
  Lookups lookups;
  lookups.hold(1);
  EXPECT_EQ(lookups.finder().find(address(1)).value(), nullptr);
  for (uint16_t lid = 2; lid < 20; ++lid) EXPECT_EQ((*lookups.wait(lid))->attributes.dlid, lid);
  EXPECT_EQ(lookups.finder().find(address(1)).value(), nullptr);
  lookups.release();
  EXPECT_EQ((*lookups.wait(1))->attributes.dlid, 1);
  EXPECT_EQ(lookups.asked(1), 1);
}

TEST(VerbsWays, ManyOfAPortAreOneLookupAndItsEndIsToldOnce) {
  Lookups lookups;
  lookups.hold(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(lookups.finder().find(address(1)).value(), nullptr);
  pollfd file{lookups.finder().events(), POLLIN, 0};
  EXPECT_EQ(poll(&file, 1, 0), 0);
  lookups.release();
  EXPECT_EQ(poll(&file, 1, 60'000), 1);
  const auto first = lookups.wait(1), second = lookups.wait(1);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(lookups.asked(1), 1);
}

TEST(VerbsWays, OneThatIsNotThereIsLookedForAgain) {
  Lookups lookups;
  lookups.refuse(true);
  const auto refused = lookups.wait(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPeerFailed);
  lookups.refuse(false);
  Result<WayFinder::Found> found = lookups.wait(1);
  while (!found) found = lookups.wait(1);
  EXPECT_EQ((*found)->attributes.dlid, 1);
}

TEST(VerbsWays, AnOldOneCountsUntilItIsFoundAnew) {
  Lookups lookups;
  const WayFinder::Found old = *lookups.wait(1);
  lookups.hold(1);
  EXPECT_EQ(*lookups.wait(1), old) << "nobody wants a new one";
  EXPECT_EQ(*lookups.wait(1, now_ns()), old) << "looked for, but not found yet";
  lookups.release();
  while (lookups.wait(1).value() == old) std::this_thread::yield();
  EXPECT_EQ(lookups.asked(1), 2);
}

}  // namespace
}  // namespace ibcoll::verbs
