// What a rank learns of peers that nothing comes from.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "tests/launched.h"
#include "ucx/lifelines.h"

namespace ibcoll::ucx {
namespace {

using State = Lifelines::State;

constexpr int64_t kSecond = 1'000'000'000;

/// Listens at an address of this machine and a port (0: any), and takes no more than is waiting
/// already.
class Listener {
 public:
  Listener(const char* address, int port, int backlog)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    place_.sin_family = AF_INET;
    place_.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, address, &place_.sin_addr);
    socklen_t length = sizeof place_;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&place_), length), 0);
    EXPECT_EQ(listen(socket_.get(), backlog), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&place_), &length), 0);
  }
  int port() const { return ntohs(place_.sin_port); }

  /// Takes all the connections that it can, so that who asks from then on hears nothing: neither
  /// yes nor no, whatever the networks that this machine is on do with addresses of no machine.
  void fall_silent() {
    for (int i = 0; i < 8; ++i) {
      waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)connect(waiting_.back().get(), reinterpret_cast<sockaddr*>(&place_), sizeof place_);
    }
  }

 private:
  sockaddr_in place_{};
  UniqueFd socket_;
  std::vector<UniqueFd> waiting_;
};

/// This process's end of lines to rank 1, which is another one's place here.
class UcxLifelines : public ::testing::Test {
 protected:
  void SetUp() override {
    auto peer = Lifelines::open(kSecond, {"lo"});
    auto own = Lifelines::open(kSecond, {"lo"});
    ASSERT_TRUE(peer) << peer.error().message;
    ASSERT_TRUE(own) << own.error().message;
    peer_ = std::move(*peer);
    own_ = std::move(*own);
  }
  static LifelinePlace at(int port, std::initializer_list<std::string> addresses) {
    LifelinePlace place{};
    place.port = static_cast<decltype(place.port)>(port);
    size_t i = 0;
    for (const std::string& address : addresses)
      address.copy(place.addresses[i++].data(), place.addresses[0].size() - 1);
    return place;
  }
  void start(const LifelinePlace& place) { own_->start({own_->place(), place}, {0, 0}, 0); }
  /// What the first look that tells something tells, when looked for every millisecond.
  State answer(int64_t now_ns) {
    State state = State::kUnknown;
    wait_until([&] {
      state = own_->look(1, now_ns);
      now_ns += kSecond / 1000;
      return state != State::kUnknown;
    });
    return state;
  }

  std::unique_ptr<Lifelines> peer_, own_;
};

TEST_F(UcxLifelines, APeerThatTakesNoLineIsGone) {
  const LifelinePlace place = peer_->place();
  peer_.reset();
  start(place);
  EXPECT_EQ(answer(10 * kSecond), State::kGone);
}

TEST_F(UcxLifelines, AMachineThatNeverAnswersIsSilent) {
  Listener listener("127.0.0.1", 0, 0);
  listener.fall_silent();
  start(at(listener.port(), {"127.0.0.1"}));
  EXPECT_EQ(own_->look(1, 10 * kSecond), State::kUnknown);
  EXPECT_EQ(own_->look(1, 12 * kSecond), State::kSilent);
}

/// Interfaces come in any order, and some lead nowhere.
TEST_F(UcxLifelines, OneAddressThatAnswersIsEnough) {
  Listener silent("127.0.0.2", 0, 0);
  silent.fall_silent();
  const Listener answers("127.0.0.1", silent.port(), 8);
  start(at(silent.port(), {"127.0.0.2", "127.0.0.1"}));
  EXPECT_EQ(answer(10 * kSecond), State::kThere);
}

TEST_F(UcxLifelines, WhoWasHeardMeanwhileHasBeenSilentFromThenOn) {
  Listener listener("127.0.0.1", 0, 0);
  listener.fall_silent();
  start(at(listener.port(), {"127.0.0.1"}));
  EXPECT_EQ(own_->look(1, 10 * kSecond), State::kUnknown);
  own_->heard(1);
  EXPECT_EQ(own_->look(1, 20 * kSecond), State::kUnknown);
  EXPECT_EQ(own_->look(1, 20 * kSecond + kSecond / 2), State::kUnknown);
  EXPECT_EQ(own_->look(1, 22 * kSecond), State::kSilent);
}

/// Nobody has asked it.
TEST_F(UcxLifelines, APeerIsNotSilentWhereThisHostLacksDescriptors) {
  start(peer_->place());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit none = limit;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const State first = own_->look(1, 10 * kSecond), later = own_->look(1, 20 * kSecond);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(first, State::kUnknown);
  EXPECT_EQ(later, State::kUnknown);
  EXPECT_EQ(answer(20 * kSecond), State::kThere);
}

}  // namespace
}  // namespace ibcoll::ucx
