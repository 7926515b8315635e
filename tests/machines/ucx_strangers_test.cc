// Jobs over UCX and strangers: processes of another user on the machines of a job, and any on a
// machine that is not in it. Connections of theirs never come to be, and no job takes harm.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <sstream>
#include <thread>

#include "engine/bootstrap/control_socket.h"
#include "tests/machines/machines_job.h"
#include "tests/machines/namespaces.h"
#include "ucx/gate.h"

namespace ibcoll::testing {
namespace {

using ucx::Address;
using ucx::Callers;

constexpr uid_t kNobody = 65534;

struct Place {
  sockaddr_storage name{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&name); }
  uint16_t port() const {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);  // as in sockaddr_in6
  }
};

Place loopback(int family, uint16_t port = 0) {
  Place place;
  place.name.ss_family = static_cast<sa_family_t>(family);
  reinterpret_cast<sockaddr_in*>(&place.name)->sin_port = htons(port);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&place.name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.length = sizeof(sockaddr_in);
  } else {
    reinterpret_cast<sockaddr_in6*>(&place.name)->sin6_addr = in6addr_loopback;
    place.length = sizeof(sockaddr_in6);
  }
  return place;
}
Address address_of(int family) {
  Address address{{127, 0, 0, 1}, 4};
  if (family == AF_INET6) {
    address = {{}, 6};
    address.bytes[15] = 1;
  }
  return address;
}

UniqueFd stream(int family) {
  return UniqueFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

struct Listener {
  UniqueFd socket;
  Place place;
};
Listener listen_on_loopback(int family) {
  Listener listener{stream(family), loopback(family)};
  Place& place = listener.place;
  if (bind(listener.socket.get(), place.get(), place.length) != 0 ||
      listen(listener.socket.get(), 16) != 0 ||
      getsockname(listener.socket.get(), place.get(), &place.length) != 0)
    listener.socket.reset();
  return listener;
}

/// Whether a connection from this port comes to be, within some time for one that should not.
bool connects(Place to, uint16_t from_port, int wait_ms) {
  const UniqueFd caller = stream(to.name.ss_family);
  EXPECT_EQ(bind_shared(caller.get(), to.name.ss_family, from_port), 0);
  const int result = connect(caller.get(), to.get(), to.length);
  EXPECT_TRUE(result == 0 || errno == EINPROGRESS) << strerror(errno);
  pollfd file{caller.get(), POLLOUT, 0};
  return poll(&file, 1, wait_ms) == 1 && connect_error(caller.get()) == 0;
}

constexpr int kLongMs = 10'000, kShortMs = 150;

TEST(PacketFilter, LetsConnectionsOfItsCallersThrough) {
  for (const int family : {AF_INET, AF_INET6}) {
    const Listener listener = listen_on_loopback(family);
    if (!listener.socket.valid()) continue;  // without IPv6
    const auto gate = ucx::Gate::open(*ucx::library().value());
    ASSERT_TRUE(gate) << gate.error().message;
    const uint16_t port = (*gate)->port();
    Callers elsewhere{{Address{{10, 1, 2, 3}, 4}, Address{{0xfe, 1, 2, 3}, 6}}, port, 1};
    Callers here{{address_of(family)}, static_cast<uint16_t>(port + 1), 2};
    ASSERT_TRUE(ucx::attach_filter(listener.socket.get(), ucx::filter_for({elsewhere, here})));
    EXPECT_FALSE(connects(listener.place, port, kShortMs));
    EXPECT_TRUE(connects(listener.place, port + 1, kLongMs));
    EXPECT_TRUE(connects(listener.place, port + 2, kLongMs));
    EXPECT_FALSE(connects(listener.place, port + 3, kShortMs));
    // Elsewhere: ends of a connection that has just been closed keep out the next one.
    const Listener closed = listen_on_loopback(family);
    ASSERT_TRUE(ucx::attach_filter(closed.socket.get(), ucx::filter_for({elsewhere, here})));
    ASSERT_TRUE(ucx::attach_filter(closed.socket.get(), ucx::filter_for({})));
    EXPECT_FALSE(connects(closed.place, port + 1, kShortMs));
  }
}

TEST(PacketFilter, KnowsManyRanks) {
  // 64 machines of four addresses with 16 ranks each, whose ports are anywhere.
  std::vector<Callers> callers;
  for (uint8_t machine = 0; machine < 64; ++machine) {
    for (uint16_t rank = 0; rank < 16; ++rank) {
      std::vector<Address> addresses;
      for (uint8_t i = 0; i < 4; ++i) addresses.push_back({{10, 0, i, machine}, 4});
      callers.push_back({addresses, static_cast<uint16_t>(33000 + 100 * rank + machine), 4});
    }
  }
  const auto gate = ucx::Gate::open(*ucx::library().value());
  ASSERT_TRUE(gate) << gate.error().message;
  callers.push_back({{address_of(AF_INET)}, (*gate)->port(), 1});
  const std::vector<sock_filter> filter = ucx::filter_for(callers);
  EXPECT_LE(filter.size(), size_t{BPF_MAXINSNS});
  const Listener listener = listen_on_loopback(AF_INET);
  const Status attached = ucx::attach_filter(listener.socket.get(), filter);
  if (!attached) {
    EXPECT_THAT(attached.error().message, ::testing::HasSubstr("net.core.optmem_max"));
    return;
  }
  EXPECT_TRUE(connects(listener.place, (*gate)->port(), kLongMs));
  EXPECT_FALSE(connects(listener.place, (*gate)->port() + 1, kShortMs));
}

TEST(PacketFilter, IsShortForNeighbouringPorts) {
  std::vector<Callers> callers;
  for (uint16_t rank = 0; rank < 1000; ++rank)
    callers.push_back({{address_of(AF_INET)}, static_cast<uint16_t>(33000 + 4 * rank), 4});
  EXPECT_LT(ucx::filter_for(callers).size(), 40u);
}

/// Nobody else has the ports that tell the ranks of a job.
TEST(Gate, KeepsItsPortsFromOtherUsers) {
  const auto gate = ucx::Gate::open(*ucx::library().value());
  ASSERT_TRUE(gate) << gate.error().message;
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(77);
    int got = 0;
    for (const int family : {AF_INET, AF_INET6}) {
      for (uint16_t i = 0; i < 4; ++i) {
        const auto port = static_cast<uint16_t>((*gate)->port() + i);
        got += bind_shared(stream(family).get(), family, port) == 0;
        const UniqueFd reusing = stream(family);
        const int on = 1;
        setsockopt(reusing.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        Place place = loopback(family, port);
        got += bind(reusing.get(), place.get(), place.length) == 0;
      }
    }
    _exit(got);
  }
  int status = 0;
  waitpid(stranger, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root can be another user";
  EXPECT_EQ(status, 0);
}

TEST(Gate, TwoHaveDifferentPorts) {
  const auto one = ucx::Gate::open(*ucx::library().value());
  const auto other = ucx::Gate::open(*ucx::library().value());
  ASSERT_TRUE(one && other);
  EXPECT_NE((*one)->port(), (*other)->port());
}

/// What strangers know of each other; shared by processes.
struct Raid {
  std::atomic<bool> over;
  std::atomic<uint64_t> tried;                  ///< connections that were asked for
  std::atomic<uint64_t> places[kMaxRanks * 4];  ///< IPv4 addresses and ports of listeners
};

/// Ports that listen on this machine, as everybody can read them.
std::vector<Place> listeners_here() {
  std::vector<Place> all;
  for (const bool six : {false, true}) {
    std::ifstream table(six ? "/proc/self/net/tcp6" : "/proc/self/net/tcp");
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      const size_t colon = local.find(':');
      if (state != "0A" || colon == std::string::npos) continue;
      Place place = loopback(
          AF_INET, static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16)));
      const auto address = six ? 0 : std::stoul(local.substr(0, colon), nullptr, 16);
      if (address != 0)
        reinterpret_cast<sockaddr_in*>(&place.name)->sin_addr.s_addr =
            static_cast<uint32_t>(address);
      all.push_back(place);
    }
  }
  return all;
}

/// What a stranger says: nothing, nonsense, or what looks as if it came from UCX.
std::vector<uint8_t> something(std::mt19937& random) {
  std::vector<uint8_t> bytes;
  const auto add = [&](uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
  };
  const uint32_t kind = random() % 4;
  if (kind == 0) return bytes;
  if (kind > 1) add(0xCAFEBABE12345678, 8);
  if (kind > 2) {  // a request for a connection, of any event and length
    add(random() % 3 == 0 ? random() % 32 : 31, 1);
    add(random() % 4 == 0 ? random() : 26, 4);
    add(random() % 4, 1);
    add(random() % 2, 1);
    add(random() % 8, 8);
    add(AF_INET, 2);
    add(random(), 6);
    add(0, 8);
  }
  for (uint32_t i = random() % 300; i != 0; --i) add(random(), 1);
  return bytes;
}

/// Calls every listener that it finds, over and over. With `own`, those of its machine, which it
/// tells the others; else those that it is told.
[[noreturn]] void raid(Raid& raid, bool own, size_t first_place) {
  std::mt19937 random(static_cast<uint32_t>(getpid()));
  std::vector<UniqueFd> open(100);
  std::vector<bool> said(open.size());
  for (size_t next = 0; !raid.over && getppid() != 1;) {
    std::vector<Place> places;
    if (own) {
      places = listeners_here();
      size_t at = first_place;
      for (Place& place : places) {
        auto* four = reinterpret_cast<sockaddr_in*>(place.get());
        const uint32_t address = ntohl(four->sin_addr.s_addr);
        if (address >> 24 != 127 && at < first_place + 4)
          raid.places[at++] = uint64_t{address} << 16 | place.port();
      }
    } else {
      for (const auto& told : raid.places) {
        const uint64_t value = told;
        if (value == 0) continue;
        Place place = loopback(AF_INET, static_cast<uint16_t>(value));
        reinterpret_cast<sockaddr_in*>(place.get())->sin_addr.s_addr =
            htonl(static_cast<uint32_t>(value >> 16));
        places.push_back(place);
      }
    }
    for (Place& place : places) {
      const size_t slot = next++ % open.size();
      open[slot] = stream(AF_INET);
      said[slot] = false;
      connect(open[slot].get(), place.get(), place.length);
      ++raid.tried;
    }
    for (size_t slot = 0; slot < open.size(); ++slot) {
      if (said[slot] || !open[slot].valid()) continue;
      pollfd file{open[slot].get(), POLLOUT, 0};
      if (poll(&file, 1, 0) != 1) continue;
      const std::vector<uint8_t> bytes = something(random);
      send(open[slot].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      said[slot] = true;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  _exit(0);
}

/// On the head: strangers there and, of another user, on each machine.
class Raiders {
 public:
  Raiders()
      : raid_(new (mmap(nullptr, sizeof(Raid), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Raid{}) {
    const auto machines = machines::known_machines();
    std::fflush(nullptr);
    start([&] { raid(*raid_, false, 0); });
    for (size_t i = 0; i < machines->size(); ++i) {
      start([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const auto child = machines::fork_into((*machines)[i].keeper);
        if (child && *child == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0)
          raid(*raid_, true, 4 * i);
        if (child && *child > 0) waitpid(*child, nullptr, 0);
        _exit(0);
      });
    }
  }
  ~Raiders() {
    raid_->over = true;
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
    munmap(raid_, sizeof(Raid));
  }
  uint64_t tried() const { return raid_->tried; }

 private:
  template <class Body>
  void start(const Body& body) {
    pids_.push_back(fork());
    if (pids_.back() == 0) body();
  }
  Raid* raid_;
  std::vector<pid_t> pids_;
};

class UcxStrangers : public MachinesTest {
 protected:
  /// Jobs of so many exchanges among strangers, until these have tried so often.
  static void jobs(int starts, int runs, uint64_t connections) {
    const Raiders strangers;
    int failed = 0;
    for (int i = 0; failed < 3 && (i < starts + runs || strangers.tried() < connections); ++i) {
      const uint32_t exchanges = i < starts ? 1 : 20;
      const std::string complaints = run_between_machines([&](const RankView& rank) {
        for (uint32_t number = 0; number < exchanges; ++number)
          if (!exchange(rank, number % 3 == 2 ? 100'000 : 500, number)) return;
        std::this_thread::sleep_for(milliseconds(10));
      });
      failed += !complaints.empty();
      EXPECT_EQ(complaints, "") << "job " << i;
    }
    if (getenv("TEST_VERBOSE") != nullptr)
      fmt::print(stderr, "{} connections tried\n", strangers.tried());
    if (geteuid() == 0) {
      EXPECT_GE(strangers.tried(), connections);
    }
  }
};

TEST_F(UcxStrangers, DoNoHarm) {
  if (!on_head()) return run_on_head("2x2");
  jobs(5, 5, 1000);
}
TEST_F(UcxStrangers, DoNoHarmFull) {
  if (!on_head()) return run_on_head("2x2", 1500);
  jobs(200, 100, 30'000);
}

/// A UCX that makes its connections in a way that is not known, as a later one may.
TEST_F(UcxStrangers, AreNotListenedToWhereNothingKeepsThemOut) {
  if (!on_head()) return run_on_head("2x1");
  ucx::Library& ucp = *ucx::library().value();
  ucp.status_string = reinterpret_cast<decltype(ucp.status_string)>(
      reinterpret_cast<void*>(ucp.get_version_string));
  const auto once = [](const RankView& rank) { exchange(rank, 500, 0); };
  EXPECT_THAT(run_between_machines(once),
              ::testing::ContainsRegex("rank 0: .*with UCX [0-9.]+ anybody could connect to this "
                                       "job and end it: this UCX makes its connections in an "
                                       "unknown way; .*IBCOLL_UCX_OPEN=1 allows it\nrank 1"));
  setenv("UCX_NET_DEVICES", "lo", 1);
  EXPECT_THAT(run_between_machines([](const RankView&) {}), "");
  setenv("UCX_NET_DEVICES", "eth0", 1);
  setenv("IBCOLL_UCX_OPEN", "1", 1);
  EXPECT_EQ(run_between_machines(once), "");
}

}  // namespace
}  // namespace ibcoll::testing
