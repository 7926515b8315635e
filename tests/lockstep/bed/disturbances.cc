// What goes wrong, and when.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/state.h"

namespace ibcoll::lockstep {

int64_t g_updates_left = INT64_MAX;

std::string to_string(const Disturbance& one) {
  static constexpr const char* kRoomNames[kRooms] = {"ring", "mail queue", "put", "mail", "signal"};
  std::string moment = std::to_string(one.at);
  if (one.by == Disturbance::By::kUpdate) moment = "update " + moment;
  if (one.by == Disturbance::By::kRoom)
    moment = fmt::format("{} {}", kRoomNames[static_cast<size_t>(one.room)], moment);
  if (one.by != Disturbance::By::kAccess) moment += fmt::format(" and {}", one.after);
  switch (one.kind) {
    case Disturbance::Kind::kKill:
      return fmt::format("kill:{}@{}", one.rank, moment);
    case Disturbance::Kind::kStop:
      return fmt::format("stop:{}@{}+{}", one.rank, moment, one.ns);
    case Disturbance::Kind::kNoMemory:
      return fmt::format("memory:{}@{}", one.rank, one.at);
    case Disturbance::Kind::kNoHeap:
      return fmt::format("heap:{}@{}", one.rank, one.at);
    case Disturbance::Kind::kNoCall:
      return fmt::format("call:{}@{}", one.rank, one.at);
    case Disturbance::Kind::kFlip:
      return fmt::format("flip:{}@{}+{}", one.rank, one.at, one.ns);
    default:
      return fmt::format("clock:{}@{}+{}", one.rank, one.at, one.ns);
  }
}

bool counts_for_itself(Disturbance::Kind kind) {
  return kind == Disturbance::Kind::kNoMemory || kind >= Disturbance::Kind::kNoHeap;
}

const Disturbance* Bed::State::due_now(Disturbance::Kind kind, uint64_t number) const {
  for (const Disturbance& one : conditions.disturbances) {
    if (one.kind == kind && one.rank == running->process && one.at == number) return &one;
  }
  return nullptr;
}

void Bed::State::happens_soon(Process& process, Disturbance one) {
  const auto used = static_cast<uint64_t>(slice - g_accesses_left);
  one.at = process.accesses + used + 1 + one.after;
  const auto later = std::find_if(process.due.begin(), process.due.end(),
                                  [&](const Disturbance& other) { return other.at > one.at; });
  process.due.insert(later, one);
  const auto left = static_cast<int64_t>(1 + one.after);
  slice -= std::max<int64_t>(g_accesses_left - left, 0);
  g_accesses_left = std::min(g_accesses_left, left);
}

void Bed::State::look_for_room(Room room) {
  Process& process = processes[static_cast<size_t>(running->process)];
  const uint64_t look = ++process.looks[static_cast<size_t>(room)];
  for (const Disturbance& one : process.due_by_room) {
    if (one.room == room && one.at == look) happens_soon(process, one);
  }
}

void Bed::State::disturb() {
  Process& process = processes[static_cast<size_t>(running->process)];
  while (!process.due.empty() && process.due.front().at <= process.accesses) {
    const Disturbance one = process.due.front();
    process.due.erase(process.due.begin());
    switch (one.kind) {
      case Disturbance::Kind::kKill:
        kill(running->process);
        leave();
        std::abort();
      case Disturbance::Kind::kStop:
        ++counts.stops;
        longest_delay = std::max(longest_delay, one.ns);
        process.stopped_until = now + one.ns;
        if (traces)
          fmt::print(stderr, "{:>12} rank {} stops for {} ns\n", now, running->process, one.ns);
        break;
      case Disturbance::Kind::kClock:
        ++counts.clock_steps;
        longest_delay = std::max(longest_delay, one.ns);
        process.clock_ahead += one.ns;
        break;
      default:
        break;
    }
  }
}

void reach_update() {
  if (!machine::in_fiber()) return;
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (process.due_by_update.empty()) return;
  const Disturbance one = process.due_by_update.front();
  process.due_by_update.erase(process.due_by_update.begin());
  process.updates = static_cast<int64_t>(one.at);
  bed.happens_soon(process, one);
  g_updates_left = process.due_by_update.empty()
                       ? INT64_MAX
                       : static_cast<int64_t>(process.due_by_update.front().at) - process.updates;
}

bool fails_spuriously() {
  if (!machine::in_fiber() || !state().random.one_in(16)) return false;
  ++state().counts.exchanges_failed;
  return true;
}

namespace machine {

bool forbids_process_vm() { return state().conditions.forbids_process_vm; }

bool refuses_memory() {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bed.due_now(Disturbance::Kind::kNoMemory, ++process.requests) == nullptr) return false;
  ++bed.counts.refusals;
  bed.memory_failed = true;
  bed.tell("is refused memory");
  return true;
}

bool refuses_heap() {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bed.due_now(Disturbance::Kind::kNoHeap, ++process.heap_requests) == nullptr) return false;
  ++bed.counts.heap_refusals;
  bed.memory_failed = true;
  bed.tell("is refused private memory");
  return true;
}

bool refuses_call() {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bed.due_now(Disturbance::Kind::kNoCall, ++process.calls) == nullptr) return false;
  ++bed.counts.failed_calls;
  bed.tell("makes a system call that fails");
  return true;
}

void data_came(void* data, size_t bytes) {
  Bed::State& bed = state();
  Process& process = bed.processes[static_cast<size_t>(self().process)];
  if (bytes == 0) return;
  const Disturbance* const one = bed.due_now(Disturbance::Kind::kFlip, ++process.pieces);
  if (one == nullptr) return;
  const auto bit = static_cast<uint64_t>(one->ns) % (8 * bytes);
  static_cast<unsigned char*>(data)[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  ++bed.counts.flips;
  bed.tell("gets data with a flipped bit");
}

bool forbids_membarrier() { return (state().conditions.no_fences_of >> self().process & 1) != 0; }

bool refuses_room(Room room) {
  Bed::State& bed = state();
  bed.look_for_room(room);
  if (bed.conditions.refused_rooms == 0 || !bed.random.one_in(bed.conditions.refused_rooms))
    return false;
  ++bed.counts.rooms_refused;
  return true;
}

int64_t copy_ns() {
  // Now as if one way were better, now as if another were.
  constexpr uint64_t kLongestNs = 20'000;
  return static_cast<int64_t>(state().random.below(kLongestNs));
}

int cores() { return state().conditions.cores; }

}  // namespace machine

}  // namespace ibcoll::lockstep
