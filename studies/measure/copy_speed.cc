#include "studies/measure/copy_speed.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/shared_region.h"

namespace ibcoll::measure {
namespace {

constexpr size_t kPage = 4096;
/// A turn copies at least this much, so that reading the clock twice doesn't count.
constexpr int64_t kTurnBytes = 256 << 10;
constexpr int kMaxSamples = 1024;

struct alignas(64) Turn {
  std::atomic<uint64_t> next{0};
};

size_t whole_pages(int64_t bytes) {
  return (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
}

/// The core this process is bound to; ranks that aren't bound are dealt out in turn.
int my_core(Rank rank) {
  cpu_set_t mask;
  // With one usable core, whoever started this rank has bound it, or there is no other.
  if (sched_getaffinity(0, sizeof mask, &mask) == 0 &&
      (CPU_COUNT(&mask) < usable_cores() || usable_cores() == 1)) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) return cpu;
    }
  }
  return rank % std::max(1, usable_cores());
}

}  // namespace

struct CopySpeed::State {
  Bootstrap* bootstrap = nullptr;
  SharedRegion region;
  std::vector<int> ring_of;  ///< of each rank: the number of its core among those in use
  int rings = 0;
  int place = 0;                           ///< this rank among those of its core
  int ring_size = 0;                       ///< how many those are
  size_t send_room = 0, receive_room = 0;  ///< bytes a rank
  uint64_t turns_taken = 0;                ///< of this rank's ring, in measurements before

  Turn& turn(int which) const { return reinterpret_cast<Turn*>(region.data())[which]; }
  double* times(Rank rank) const {
    return reinterpret_cast<double*>(region.data() + bootstrap->size() * sizeof(Turn)) +
           static_cast<size_t>(rank) * kMaxSamples;
  }
  std::byte* send(Rank rank) const {
    return region.data() + control_bytes() + static_cast<size_t>(rank) * send_room;
  }
  std::byte* receive(Rank rank) const {
    return region.data() + control_bytes() + bootstrap->size() * send_room +
           static_cast<size_t>(rank) * receive_room;
  }
  size_t control_bytes() const {
    return whole_pages(bootstrap->size() *
                       static_cast<int64_t>(sizeof(Turn) + kMaxSamples * sizeof(double)));
  }
  size_t bytes() const { return control_bytes() + bootstrap->size() * (send_room + receive_room); }
};

CopySpeed::CopySpeed(std::unique_ptr<State> state) : state_(std::move(state)) {}
CopySpeed::CopySpeed(CopySpeed&&) noexcept = default;
CopySpeed::~CopySpeed() = default;

Result<CopySpeed> CopySpeed::create(Bootstrap& bootstrap, const Traffic& largest) {
  auto state = std::make_unique<State>();
  state->bootstrap = &bootstrap;
  for (Rank rank = 0; rank < bootstrap.size(); ++rank) {
    state->send_room = std::max(state->send_room, whole_pages(largest.send_bytes(rank)));
    state->receive_room = std::max(state->receive_room, whole_pages(largest.receive_bytes(rank)));
  }
  const Rank me = bootstrap.rank();
  const int core = my_core(me);
  std::vector<int> core_of(bootstrap.size());
  IBCOLL_TRY(bootstrap.allgather(&core, sizeof core, core_of.data()));
  std::vector<int> cores = core_of;
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  state->rings = static_cast<int>(cores.size());
  for (const int one : core_of) {
    const auto at = std::lower_bound(cores.begin(), cores.end(), one);
    state->ring_of.push_back(static_cast<int>(at - cores.begin()));
  }
  state->place = static_cast<int>(std::count(core_of.begin(), core_of.begin() + me, core));
  state->ring_size = static_cast<int>(std::count(core_of.begin(), core_of.end(), core));

  IBCOLL_ASSIGN(state->region,
                SharedRegion::create(bootstrap, 0, state->bytes(), "ibcoll copy speed"));
  // What a rank owns it also touches first, as it would its buffers in the collective.
  Status reserved;
  if (me == 0) reserved = state->region.reserve(0, state->bytes());
  if (!reserved) bootstrap.abort({me, reserved.error().code, reserved.error().message});
  IBCOLL_TRY(bootstrap.barrier());
  std::memset(state->send(me), 1, state->send_room);
  std::memset(state->receive(me), 1, state->receive_room);
  IBCOLL_TRY(bootstrap.barrier());
  return CopySpeed(std::move(state));
}

Result<std::vector<double>> CopySpeed::time_calls(const Traffic& traffic, CopyKernel kernel,
                                                  int samples) {
  State& s = *state_;
  const Rank me = s.bootstrap->rank();
  const int ranks = s.bootstrap->size();
  samples = std::clamp(samples, 1, kMaxSamples);
  if (traffic.total_bytes() == 0) return std::vector<double>(samples, 0);
  struct Piece {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  // Starting with the rank's own block, as alltoalls do, so that ranks read from different peers.
  std::vector<Piece> pieces;
  for (int i = 0; i < ranks; ++i) {
    const Rank origin = (me + i) % ranks;
    if (traffic.bytes(origin, me) == 0) continue;
    pieces.push_back({s.receive(me) + traffic.receive_offset(me, origin),
                      s.send(origin) + traffic.send_offset(origin, me),
                      static_cast<size_t>(traffic.bytes(origin, me))});
  }
  const int64_t mine = std::max<int64_t>(1, traffic.receive_bytes(me));
  const int64_t repeats = pieces.empty() ? 1 : (kTurnBytes + mine - 1) / mine;
  constexpr int kWarmUp = 2;

  IBCOLL_TRY(s.bootstrap->barrier());
  std::atomic<uint64_t>& turn = s.turn(s.ring_of[me]).next;
  for (int sample = -kWarmUp; sample < samples; ++sample) {
    const uint64_t mine_is = s.turns_taken + s.place;
    for (uint32_t spins = 1; turn.load(std::memory_order_acquire) != mine_is; ++spins) {
      sched_yield();
      if (spins % 1024 != 0) continue;
      if (const auto failure = s.bootstrap->failure())
        return fail(failure->code, "{}", failure->what);
    }
    const int64_t begin = now_ns();
    for (int64_t i = 0; i < repeats; ++i) {
      for (const Piece& piece : pieces) kernel(piece.to, piece.from, piece.bytes);
    }
    const int64_t took = now_ns() - begin;
    if (sample >= 0) s.times(me)[sample] = static_cast<double>(took) / static_cast<double>(repeats);
    turn.store(mine_is + 1, std::memory_order_release);
    s.turns_taken += s.ring_size;
  }
  IBCOLL_TRY(s.bootstrap->barrier());

  std::vector<double> calls(samples);
  for (int sample = 0; sample < samples; ++sample) {
    std::vector<double> ring_ns(s.rings, 0);
    for (Rank rank = 0; rank < ranks; ++rank) ring_ns[s.ring_of[rank]] += s.times(rank)[sample];
    calls[sample] = *std::max_element(ring_ns.begin(), ring_ns.end());
  }
  IBCOLL_TRY(s.bootstrap->barrier());
  return calls;
}

Result<CopySpeed::Best> CopySpeed::best(const Traffic& traffic, int samples) {
  static constexpr std::pair<std::string_view, CopyKernel> kKernels[] = {
      {"memcpy", copy_plain}, {"streaming", copy_streaming}, {"rep movsb", copy_rep_movsb}};
  Best best;
  for (const auto& [name, kernel] : kKernels) {
    IBCOLL_ASSIGN(const std::vector<double> calls, time_calls(traffic, kernel, samples));
    const double typical = median(calls);
    if (best.kernel.empty() || typical < best.call_ns) best = {typical, name};
  }
  return best;
}

}  // namespace ibcoll::measure
