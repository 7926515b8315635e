#include "engine/bootstrap/control_home.h"

#include <cstring>
#include <utility>

namespace ibcoll {
namespace {

struct HomeRecord {
  int32_t port;
  uint32_t address_bytes, runs;
};
/// Ranks of a machine, which mostly follow each other, or have as many others between them.
struct RankRun {
  Rank first;
  int32_t count, stride;
};

std::vector<RankRun> runs_of(std::span<const Rank> ranks) {
  std::vector<RankRun> runs;
  for (const Rank rank : ranks) {
    RankRun* const last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->count == 1) last->stride = rank - last->first;
    if (last != nullptr && rank == last->first + last->count * last->stride)
      ++last->count;
    else
      runs.push_back({rank, 1, 1});
  }
  return runs;
}

/// Takes `bytes` bytes off the front; null where there are not so many.
const std::byte* take_bytes(std::span<const std::byte>& packed, size_t bytes) {
  if (bytes > packed.size()) return nullptr;
  const std::byte* const taken = packed.data();
  packed = packed.subspan(bytes);
  return taken;
}

}  // namespace

std::vector<std::byte> pack_homes(const ControlHomes& homes, size_t most) {
  std::vector<std::byte> packed;
  for (const ControlHome& home : homes) {
    const std::vector<RankRun> runs = runs_of(home.ranks);
    const HomeRecord record{home.port, static_cast<uint32_t>(home.address.size()),
                            static_cast<uint32_t>(runs.size())};
    const size_t before = packed.size();
    const auto append = [&packed](const auto& data) {
      const auto bytes = std::as_bytes(std::span(data));
      packed.insert(packed.end(), bytes.begin(), bytes.end());
    };
    append(std::span(&record, 1));
    append(home.address);
    append(runs);
    if (packed.size() <= most) continue;
    packed.resize(before);
    break;
  }
  return packed;
}

ControlHomes unpack_homes(std::span<const std::byte> packed) {
  ControlHomes homes;
  while (const std::byte* const header = take_bytes(packed, sizeof(HomeRecord))) {
    HomeRecord record{};
    std::memcpy(&record, header, sizeof record);
    const std::byte* const address = take_bytes(packed, record.address_bytes);
    const std::byte* const runs = take_bytes(packed, size_t{record.runs} * sizeof(RankRun));
    if (address == nullptr || runs == nullptr) break;
    ControlHome home;
    home.address.assign(reinterpret_cast<const char*>(address), record.address_bytes);
    home.port = record.port;
    for (uint32_t i = 0; i < record.runs; ++i) {
      RankRun run{};
      std::memcpy(&run, runs + i * sizeof run, sizeof run);
      for (int32_t k = 0; k < run.count; ++k) home.ranks.push_back(run.first + k * run.stride);
    }
    if (!home.ranks.empty()) homes.push_back(std::move(home));
  }
  return homes;
}

}  // namespace ibcoll
