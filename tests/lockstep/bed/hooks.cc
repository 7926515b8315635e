#include "tests/lockstep/bed/hooks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/lockstep/bed/machine.h"

namespace ibcoll {
namespace {

/// A constant of the engine's: files that are set up in any order find it here.
struct Slot {
  alignas(8) unsigned char value[8];
  size_t bytes;
};

std::map<std::string, Slot, std::less<>>& slots() {
  static std::map<std::string, Slot, std::less<>> all;
  return all;
}

}  // namespace

template <class T>
const T& narrowed(const char* name, T product) {
  auto& slot = slots().try_emplace(name, Slot{{}, 0}).first->second;
  if (slot.bytes == 0) {
    slot.bytes = sizeof product;
    std::memcpy(slot.value, &product, sizeof product);
  }
  return *reinterpret_cast<const T*>(slot.value);
}
template const uint32_t& narrowed(const char*, uint32_t);
template const size_t& narrowed(const char*, size_t);
template const int& narrowed(const char*, int);
template const int64_t& narrowed(const char*, int64_t);

void took(Way way, void* data, size_t bytes) {
  ++lockstep::hook_counts().ways[static_cast<size_t>(way)];
  if (data != nullptr && lockstep::machine::in_fiber()) lockstep::machine::data_came(data, bytes);
}

thread_local int lockstep::g_may_lack_memory = 0;
MayLackMemory::MayLackMemory() { ++lockstep::g_may_lack_memory; }
MayLackMemory::~MayLackMemory() { --lockstep::g_may_lack_memory; }

int64_t copy_took(int64_t ns) {
  return lockstep::machine::in_fiber() ? lockstep::machine::copy_ns() : ns;
}

bool refused_for_no_reason(Room room) {
  if (!lockstep::machine::in_fiber() || !lockstep::machine::refuses_room(room)) return false;
  ++lockstep::hook_counts().refused[static_cast<size_t>(room)];
  return true;
}

namespace lockstep {

std::span<const NarrowLimit> narrow_limits() {
  static const std::vector<NarrowLimit> all = {
      // Rings: messages, bytes of payloads, refusals until a payload goes another way.
      {"kMostLines", {2, 4, 16}},
      {"kMostRingBytes", {2048, 4096, 16384}},
      {"kRefusals", {1, 4}},
      {"kMailPlaces", {1, 2, 5}},
      // Messages between those that are timed, in a trial, and until the next one.
      {"kTimedEach", {1, 3}},
      {"kMostTried", {2, 6}},
      {"kSoonest", {2, 10}},
      // Pieces of copies, of reads from other processes, and of lists of runs.
      {"kPieceBytes", {64, 1000, 8192}},
      {"kReadBytes", {100, 5000}},
      {"kLongRun", {16, 256}},
      {"kListedPieces", {1, 3}},
      {"kGatheredAtOnce", {1, 2}},
      {"kInBlock", {1, 3}},
      // Calls, cells, exposures.
      {"kCallsUnderWay", {1, 2, 5}},
      {"kMostCells", {40, 64}},
      {"kExposureBytes", {320, 512, 1024}},
      {"kRemembered", {1, 2}},
      {"kUnasked", {1, 2}},
      // Calls of a program before its operations are listed.
      {"kUses", {0}},
      // Mails and notices.
      {"kMailsAtOnce", {1, 3}},
      {"kNoticesAtOnce", {1}},
      {"kToldDirectly", {0}},
      // Multicasts.
      {"kMaxShortMulticast", {0, 40, 700}},
      {"kAnnouncementBytes", {96, 200}},
      // How long ranks look before they sleep.
      {"kSpins", {0, 3}},
      {"kYieldsBetweenClocks", {1, 2}},
      {"kYieldNs", {0, 1000}},
      // The loopback's queues.
      {"kEntriesInUse", {1, 3}},
      // Rounds for which a connection is kept that nothing was sent over.
      {"kKeptRounds", {1, 4}},
      // Entries of lists of programs that are not packed.
      {"kLongestPlain", {0, 5}},
  };
  return all;
}

void set_limit(std::string_view name, uint64_t value) {
  const auto found = slots().find(name);
  if (found == slots().end()) {
    fmt::print(stderr, "lockstep: the engine has no limit {}\n", name);
    std::abort();
  }
  Slot& slot = found->second;
  if (slot.bytes == sizeof(uint32_t)) {
    const auto narrow = static_cast<uint32_t>(value);
    std::memcpy(slot.value, &narrow, sizeof narrow);
  } else {
    std::memcpy(slot.value, &value, sizeof value);
  }
}

const char* to_string(Way way) {
  static constexpr const char* kNames[kWays] = {"line",  "ring",  "pull", "set aside",
                                                "chunk", "eager", "put",  "forward"};
  return kNames[static_cast<size_t>(way)];
}

HookCounts& hook_counts() {
  static HookCounts counts;
  return counts;
}

}  // namespace lockstep
}  // namespace ibcoll
