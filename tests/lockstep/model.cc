#include "tests/lockstep/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/lockstep/random.h"
#include "tests/lockstep/reductions.h"

namespace ibcoll::lockstep {
namespace {

uint64_t word_at(uint64_t base, uint64_t index) {
  uint64_t word = base + index * kStep;
  word ^= word >> 32;
  word *= 0xd6e8feb86659fd93ULL;
  return word ^ word >> 29;
}

}  // namespace

void fill_block(uint64_t base, uint64_t from, std::byte* to, size_t bytes) {
  uint64_t index = from / 8;
  if (const size_t skip = from % 8; skip != 0) {
    const size_t head = std::min(bytes, 8 - skip);
    const uint64_t word = word_at(base, index++);
    std::memcpy(to, reinterpret_cast<const std::byte*>(&word) + skip, head);
    to += head;
    bytes -= head;
  }
  for (; bytes >= 8; bytes -= 8, to += 8) {
    const uint64_t word = word_at(base, index++);
    std::memcpy(to, &word, 8);
  }
  if (bytes == 0) return;
  const uint64_t word = word_at(base, index);
  std::memcpy(to, &word, bytes);
}

uint64_t block_base(uint64_t seed, uint32_t call, uint32_t instance, int origin, int target) {
  return drawn({seed, uint64_t{call} << 32 | instance,
                static_cast<uint64_t>(origin) << 32 | static_cast<uint64_t>(target)});
}

void write_before(const Program& program, const Action& action, uint32_t instance,
                  const CallPlan& plan, bool send, std::byte rest, std::byte* buffer) {
  const BufferPlan& side = send ? plan.send : plan.recv;
  if (side.bytes != 0) std::memset(buffer, std::to_integer<int>(rest), side.bytes);
  const CallSpec& spec = action.spec;
  if (reduces(spec.operation)) {
    if (send == plan.in_place || plan.elements == 0) return;
    write_elements(program, spec, plan.ranks,
                   block_base(program.seed, action.number, instance, plan.me, kForAll), 0,
                   plan.elements, buffer);
    return;
  }
  const bool moves_whole = spec.operation == Operation::kAlltoall ||
                           spec.operation == Operation::kAlltoallv ||
                           spec.operation == Operation::kAlltoallw;
  for (const PlacedBlock& block : side.blocks) {
    int origin = block.origin, target = block.target;
    if (!send) {
      const bool has = spec.operation == Operation::kBcast
                           ? plan.me == spec.root
                           : plan.in_place && (moves_whole || origin == plan.me);
      if (!has) continue;
      if (moves_whole) std::swap(origin, target);
    }
    const uint64_t base = block_base(program.seed, action.number, instance, origin, target);
    for_each_run(block.place, [&](int64_t at, uint64_t from, size_t bytes) {
      fill_block(base, from, buffer + at, bytes);
    });
  }
}

const std::byte* Expectations::combined(const Program& program, const Action& action,
                                        uint32_t instance, const CallPlan& plan) {
  Entry& entry = entries_[action.number % entries_.size()];
  if (entry.seed != program.seed || entry.number != action.number || entry.instance != instance ||
      entry.bytes.size() < plan.elements * plan.element_bytes) {
    prefix(program, action, instance, plan, plan.ranks - 1);
    entry.seed = program.seed;
    entry.number = action.number;
    entry.instance = instance;
    entry.bytes.assign(prefix_.begin(), prefix_.end());
  }
  return entry.bytes.data();
}

const std::byte* Expectations::prefix(const Program& program, const Action& action,
                                      uint32_t instance, const CallPlan& plan, int last) {
  const size_t bytes = plan.elements * plan.element_bytes;
  prefix_.resize(bytes);
  if (last > 0 && input_.size() < bytes) input_.resize(bytes);
  for (int rank = 0; rank <= last; ++rank) {
    const uint64_t base = block_base(program.seed, action.number, instance, rank, kForAll);
    std::byte* const to = rank == 0 ? prefix_.data() : input_.data();
    write_elements(program, action.spec, plan.ranks, base, 0, plan.elements, to);
    if (rank != 0) combine(program, action.spec, prefix_.data(), input_.data(), plan.elements);
  }
  return prefix_.data();
}

void Checker::write_after(const Program& program, const Action& action, uint32_t instance,
                          const CallPlan& plan, bool send, std::byte rest, const std::byte* buffer,
                          Expectations& expectations) {
  const CallSpec& spec = action.spec;
  const BufferPlan& side = send ? plan.send : plan.recv;
  if (send) return write_before(program, action, instance, plan, true, rest, expected_.data());
  if (reduces(spec.operation)) {
    // What comes in place of more than the result is not said to stay.
    std::memset(expected_.data(), std::to_integer<int>(rest), side.bytes);
    if (plan.in_place) {
      if (plan.results == 0)
        return write_before(program, action, instance, plan, false, rest, expected_.data());
      std::memcpy(expected_.data(), buffer, side.bytes);
    }
    if (plan.results == 0) return;
    const bool scans = spec.operation == Operation::kScan || spec.operation == Operation::kExscan;
    const std::byte* const result =
        scans ? expectations.prefix(program, action, instance, plan,
                                    plan.me - (spec.operation == Operation::kExscan ? 1 : 0))
              : expectations.combined(program, action, instance, plan);
    std::memcpy(expected_.data(), result + plan.first_result * plan.element_bytes,
                plan.results * plan.element_bytes);
    if (spec.own_operator < 0) forgive(spec, expected_.data(), buffer, plan.results);
    return;
  }
  std::memset(expected_.data(), std::to_integer<int>(rest), side.bytes);
  for (const PlacedBlock& block : side.blocks) {
    const uint64_t base =
        block_base(program.seed, action.number, instance, block.origin, block.target);
    for_each_run(block.place, [&](int64_t at, uint64_t from, size_t bytes) {
      fill_block(base, from, &expected_[static_cast<size_t>(at)], bytes);
    });
  }
}

std::string Checker::check(const Program& program, const Action& action, uint32_t instance,
                           const CallPlan& plan, bool send, std::byte rest, const std::byte* buffer,
                           Expectations& expectations) {
  const BufferPlan& side = send ? plan.send : plan.recv;
  if (side.bytes == 0) return {};
  if (expected_.size() < side.bytes) expected_.resize(side.bytes);
  write_after(program, action, instance, plan, send, rest, buffer, expectations);
  if (std::memcmp(expected_.data(), buffer, side.bytes) == 0) return {};
  size_t wrong = 0, first = side.bytes, last = 0;
  for (size_t i = 0; i < side.bytes; ++i) {
    if (expected_[i] == buffer[i]) continue;
    ++wrong;
    first = std::min(first, i);
    last = i;
  }
  std::string where =
      reduces(action.spec.operation)
          ? fmt::format("element {} of {} bytes", first / plan.element_bytes, plan.element_bytes)
          : std::string("no block: it should have stayed as it was");
  for (const PlacedBlock& block : side.blocks) {
    for_each_run(block.place, [&](int64_t at, uint64_t from, size_t bytes) {
      const auto begin = static_cast<size_t>(at);
      if (first < begin || first >= begin + bytes) return;
      where = fmt::format("byte {} of {} of the block of rank {} for {}", from + first - begin,
                          block.bytes(), block.origin,
                          block.target == kForAll ? "all" : std::to_string(block.target & 63));
    });
  }
  return fmt::format(
      "the {} buffer of {} bytes is wrong in {}, from byte {} to {}; the first is {}: {:02x} for "
      "{:02x}",
      send ? "send" : "receive", side.bytes, wrong, first, last, where,
      std::to_integer<int>(buffer[first]), std::to_integer<int>(expected_[first]));
}

}  // namespace ibcoll::lockstep
