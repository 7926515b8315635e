#include "verbs/reach.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "engine/transport/exchange.h"
#include "verbs/datagrams.h"
#include "verbs/lock_limit.h"
#include "verbs/way_finder.h"

namespace ibcoll::verbs {

namespace {

/// Datagrams get lost: each round waits twice as long as the one before, 1.3 s all together.
constexpr int kRounds = 7;
constexpr std::chrono::milliseconds kFirstRound{10};
constexpr std::chrono::microseconds kLookAgain{200};

struct Call {
  uint64_t job = 0;
  int32_t station = -1;  ///< the sender's
  int32_t from = -1;     ///< its port
  int32_t to = -1;       ///< the receiver's port
};

/// Where an agent's ports listen.
struct Ears {
  std::array<uint32_t, kMaxPorts> numbers{};
};

/// An agent's ports.
class Agent {
 public:
  Agent(uint64_t job, int station, PortMask mask) : job_(job), station_(station), mask_(mask) {}

  Result<Ears> open(std::span<const PortInfo> ports) {
    Ears ears;
    for (size_t port = 0; port < kMaxPorts; ++port) {
      if ((mask_ >> port & 1) == 0) continue;
      IBCOLL_ASSIGN(devices_[port], Device::open(ports[port]));
      IBCOLL_ASSIGN(datagrams_[port], Datagrams::create(devices_[port], nullptr));
      ears.numbers[port] = datagrams_[port]->number();
    }
    return ears;
  }

  /// Finds the ways to the next station's ports, all at once: it may take seconds to find that
  /// there is none.
  Status look_for(const Offer& offer, PortMask ports, bool own) {
    std::array<std::unique_ptr<WayFinder>, kMaxPorts> finders;
    for (size_t from = 0; from < kMaxPorts; ++from) {
      if (!datagrams_[from]) continue;
      IBCOLL_ASSIGN(finders[from],
                    WayFinder::create([&device = devices_[from]](const PortAddress& peer) {
                      return find_way(device, peer);
                    }));
    }
    std::array<PortMask, kMaxPorts> missing{};
    for (size_t from = 0; from < kMaxPorts; ++from) {
      const PortMask before = (PortMask{2} << from) - 1;
      if (finders[from]) missing[from] = own ? ports & ~before : ports;
    }
    for (bool looking = true; looking;) {
      looking = false;
      for (size_t from = 0; from < kMaxPorts; ++from) {
        for (size_t to = 0; to < kMaxPorts; ++to) {
          if ((missing[from] >> to & 1) == 0) continue;
          const auto found = finders[from]->find(offer.ports[to].address);
          if (found && *found == nullptr) {
            looking = true;
            continue;
          }
          missing[from] &= ~(PortMask{1} << to);
          if (found) ways_[from][to] = *found;
        }
      }
      if (looking) std::this_thread::sleep_for(kLookAgain);
    }
    return {};
  }

  /// Calls those that have not heard this station yet.
  Status call(const Ears& next, const Heard& heard_there) {
    for (size_t from = 0; from < kMaxPorts; ++from) {
      for (size_t to = 0; to < kMaxPorts; ++to) {
        if (!ways_[from][to] || (heard_there[to] >> from & 1) != 0) continue;
        const Call call{job_, station_, static_cast<int32_t>(from), static_cast<int32_t>(to)};
        IBCOLL_TRY(datagrams_[from]->send(ways_[from][to]->handle.get(), next.numbers[to],
                                          std::as_bytes(std::span(&call, 1))));
      }
    }
    return {};
  }

  Status listen(int before, Heard& heard) {
    for (size_t port = 0; port < kMaxPorts; ++port) {
      if (!datagrams_[port]) continue;
      IBCOLL_TRY(datagrams_[port]->poll([&](std::span<const std::byte> bytes) -> Status {
        Call call;
        if (bytes.size() != sizeof call) return {};
        std::memcpy(&call, bytes.data(), sizeof call);
        if (call.job == job_ && call.station == before && call.to == static_cast<int>(port) &&
            call.from >= 0 && call.from < kMaxPorts)
          heard[port] |= PortMask{1} << call.from;
        return {};
      }));
    }
    return {};
  }

 private:
  uint64_t job_;
  int station_;
  PortMask mask_;
  std::array<Device, kMaxPorts> devices_;
  std::array<std::array<WayFinder::Found, kMaxPorts>, kMaxPorts> ways_;
  std::array<std::unique_ptr<Datagrams>, kMaxPorts> datagrams_;
};

/// What a station hears if all ports reach each other.
Heard all_of(PortMask here, PortMask before, bool own) {
  Heard heard{};
  for (size_t port = 0; port < kMaxPorts; ++port)
    if ((here >> port & 1) != 0) heard[port] = own ? before & ((PortMask{1} << port) - 1) : before;
  return heard;
}

}  // namespace

Result<std::vector<Heard>> listen_around(Bootstrap& bootstrap, const Stations& stations, int here,
                                         std::span<const Offer> offers,
                                         std::span<const PortInfo> ports, uint64_t job,
                                         bool may_decline) {
  const auto count = static_cast<int>(stations.all.size());
  const int next = (here + 1) % count, before = (here + count - 1) % count;
  const auto station = [&](int index) { return stations.all[static_cast<size_t>(index)]; };
  const bool agent = station(here).agent == bootstrap.rank();
  std::vector<Rank> agents;
  for (const Station& one : stations.all) agents.push_back(one.agent);

  Agent own(job, here, station(here).ports);
  Result<Ears> mine = agent ? own.open(ports) : Result<Ears>(Ears{});
  if (!mine) mine = tl::unexpected<Error>(declined(mine.error(), may_decline));
  IBCOLL_ASSIGN(const std::vector<Ears> ears, exchange_of(bootstrap, "verbs", agents, mine));
  const Status looked =
      agent ? own.look_for(offers[station(next).offer], station(next).ports, count == 1) : Status{};

  std::vector<Heard> heard(static_cast<size_t>(count)), expected;
  for (int index = 0; index < count; ++index)
    expected.push_back(
        all_of(station(index).ports, station((index + count - 1) % count).ports, count == 1));
  Heard heard_here{};
  for (int round = 0; round < kRounds && heard != expected; ++round) {
    // All have looked for their ways before anybody's patience begins.
    IBCOLL_TRY(bootstrap.barrier());
    Status done = looked;
    if (agent && done) {
      done = own.call(ears[static_cast<size_t>(next)], heard[static_cast<size_t>(next)]);
      std::this_thread::sleep_for(kFirstRound * (1 << round));
      if (done) done = own.listen(before, heard_here);
    }
    const Result<Heard> told =
        done ? Result<Heard>(heard_here) : tl::unexpected<Error>(done.error());
    IBCOLL_ASSIGN(heard, exchange_of(bootstrap, "verbs", agents, told));
  }
  return heard;
}

}  // namespace ibcoll::verbs
