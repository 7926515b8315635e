#include "engine/execute/registration.h"

#include <algorithm>

#include "engine/execute/posted_call.h"
#include "engine/transport/memory_cache.h"

namespace ibcoll {
namespace {

/// Blocks with less between them are registered together: there can't be a whole page between them,
/// which might not even be mapped. No machine has smaller pages.
constexpr uint64_t kSmallestPage = 4096;
/// A buffer is registered as a whole where it is at most so many times what is used of it.
constexpr uint64_t kSparse = 2;
/// The same of what is put from where it lies, which saves a copy of it.
constexpr uint64_t kSparseRuns = 4;

/// A part of a buffer, in bytes from its base.
struct Extent {
  uint64_t begin = ~uint64_t{0}, end = 0;
};

/// Registers the slots of one buffer.
class BufferRegistration {
 public:
  BufferRegistration(PostedCall& call, Buffer buffer, NetworkTransport& network,
                     OwnRegions& regions, const UserRegistrations& user)
      : buffer_(buffer),
        binding_(call.binding[buffer]),
        result_(call.remote.regions[static_cast<int>(buffer)]),
        network_(network),
        regions_(regions),
        user_(user) {}

  /// The packed image, or the slots of equal length.
  Status equal(uint64_t bytes) { return bytes == 0 ? Status{} : enter({0, bytes}); }

  /// What may be put without the image, which has been registered: where this fails, because of a
  /// hole or for lack of anything, the image will do.
  void gathered(const StridedBuffer& buffer) {
    if (buffer.gathered_bytes == 0 || buffer.refused || network_.max_put_segments() == 1) return;
    auto* const begin = const_cast<std::byte*>(buffer.gathered);
    const auto index = static_cast<uint32_t>(result_.registered.size());
    if (!take_from_user(begin, buffer.gathered_reach)) {
      if (buffer.gathered_reach > std::max(kSparseRuns * buffer.gathered_bytes, kSmallestPage))
        return;
      const Result<MemoryKey> key = network_.register_spare(begin, buffer.gathered_reach);
      buffer.refused = !key;
      if (!key) return;
      result_.registered.push_back({*key, RegionName{}, nullptr});
    }
    result_.gathered = index;
  }

  Status unequal(uint32_t slots) {
    Extent all;
    uint64_t used = 0;
    for (uint32_t i = 0; i < slots; ++i) {
      if (binding_.bytes[i] == 0) continue;
      all.begin = std::min(all.begin, binding_.offsets[i]);
      all.end = std::max(all.end, binding_.offsets[i] + binding_.bytes[i]);
      used += binding_.bytes[i];
    }
    if (used == 0 || take_from_user(all)) return {};
    // Where that fails there may be a hole after all.
    if (all.end - all.begin <= std::max(kSparse * used, kSmallestPage) && enter(all)) return {};
    return by_runs(slots);
  }

 private:
  /// Nobody writes to what is only sent.
  bool exposed() const { return buffer_ != Buffer::kSend; }
  /// False: the program has registered no memory that covers it.
  bool take_from_user(const Extent& extent) {
    return take_from_user(binding_.base + extent.begin, extent.end - extent.begin);
  }
  bool take_from_user(const std::byte* begin, size_t bytes) {
    UserRegistration* const found = user_.find(begin, bytes);
    if (found == nullptr || (exposed() && found->key->remote == kNoRemoteKey)) return false;
    result_.registered.push_back({*found->key, found->region, found});
    ++found->users;
    return true;
  }

  Status enter(const Extent& extent) {
    if (take_from_user(extent)) return {};
    std::byte* const base = binding_.base + extent.begin;
    IBCOLL_ASSIGN(const MemoryKey key, network_.register_memory(base, extent.end - extent.begin));
    if (exposed() && key.remote == kNoRemoteKey) {
      network_.deregister_memory(key);
      return fail(
          ErrorCode::kInvalidArgument,
          "{} bytes at {} can't be received into: the memory, or a part of it, is read-only",
          extent.end - extent.begin, static_cast<const void*>(base));
    }
    result_.registered.push_back(
        {key, exposed() ? regions_.enter(key, base) : RegionName{}, nullptr});
    return {};
  }

  Status by_runs(uint32_t slots) {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < slots; ++i) {
      if (binding_.bytes[i] != 0) order.push_back(i);
    }
    const uint64_t* const offsets = binding_.offsets;
    std::sort(order.begin(), order.end(),
              [offsets](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
    result_.of_slot.assign(slots, 0);
    for (size_t first = 0, next = 0; first < order.size(); first = next) {
      Extent extent{offsets[order[first]], 0};
      for (next = first; next < order.size() &&
                         (next == first || offsets[order[next]] < extent.end + kSmallestPage);
           ++next) {
        extent.end = std::max(extent.end, offsets[order[next]] + binding_.bytes[order[next]]);
      }
      for (size_t i = first; i < next; ++i)
        result_.of_slot[order[i]] = static_cast<uint32_t>(result_.registered.size());
      IBCOLL_TRY(enter(extent));
    }
    return {};
  }

  const Buffer buffer_;
  const BufferBinding& binding_;
  BufferRegions& result_;
  NetworkTransport& network_;
  OwnRegions& regions_;
  const UserRegistrations& user_;
};

}  // namespace

Status register_buffers(PostedCall& call, NetworkTransport& network, OwnRegions& regions,
                        const UserRegistrations& user) {
  if (call.binding.eager) return {};
  const RankProgram& program = *call.program;
  const Shape& shape = call.group->shape;
  const auto enter = [&](Buffer buffer, size_t slots) -> Status {
    BufferRegistration registration(call, buffer, network, regions, user);
    const StridedBuffer* const strided = call.binding[buffer].strided;
    const Status registered = strided != nullptr ? registration.equal(strided->image_bytes)
                              : call.binding.unequal
                                  ? registration.unequal(static_cast<uint32_t>(slots))
                                  : registration.equal(call.binding.offset(slots));
    if (registered) return {};
    // The others are told this rank's error, so it says where.
    return fail(registered.error().code, "{}, for step 0 of {} ({}), call {}",
                registered.error().message, to_string(program.collective), program.algorithm,
                call.key.sequence);
  };
  IBCOLL_TRY(enter(Buffer::kSend, program.send_slots(shape)));
  IBCOLL_TRY(enter(Buffer::kRecv, program.recv_slots(shape)));
  IBCOLL_TRY(enter(Buffer::kScratch, program.scratch.size()));
  // Last, so that nothing that has to be registered lacks what this takes.
  for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv}) {
    if (const StridedBuffer* const strided = call.binding[buffer].strided)
      BufferRegistration(call, buffer, network, regions, user).gathered(*strided);
  }
  return {};
}

void deregister_buffers(PostedCall& call, NetworkTransport& network, OwnRegions& regions) {
  for (BufferRegions& buffer : call.remote.regions) {
    for (const RegisteredMemory& memory : buffer.registered) {
      if (memory.user != nullptr) {
        --memory.user->users;
        continue;
      }
      if (memory.region.slot != RegionName::kNowhere) regions.leave(memory.region);
      network.deregister_memory(memory.key);
    }
    buffer.registered.clear();
    buffer.of_slot.clear();
    buffer.gathered = kNone;
  }
}

}  // namespace ibcoll
