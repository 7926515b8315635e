#include "engine/core/message_memory.h"

#include <cstdlib>

#include "engine/multicast/messages.h"

namespace ibcoll {
namespace {

constexpr size_t kAlignment = 64;

bool is_private(size_t bytes) { return bytes <= kMaxShortMulticast; }

}  // namespace

MessageMemory::~MessageMemory() {
  for (const auto& entry : registered_) registrations_.remove(*entry.second);
}

Result<std::byte*> MessageMemory::take(size_t bytes) {
  if (is_private(bytes)) {
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
    if (memory == nullptr) return fail(ErrorCode::kNoMemory, "no memory for a message");
    return memory;
  }
  IBCOLL_ASSIGN(void* const memory, heap_.allocate(bytes));
  auto registration = std::make_unique<UserRegistration>();
  registration->begin = static_cast<std::byte*>(memory);
  registration->bytes = bytes;
  if (Status added = registrations_.add(*registration); !added) {
    registrations_.remove(*registration);
    (void)heap_.free(memory);
    return tl::unexpected<Error>(added.error());
  }
  std::byte* const begin = registration->begin;
  registered_[begin] = std::move(registration);
  return begin;
}

void MessageMemory::give_back(std::byte* memory, size_t bytes) {
  if (is_private(bytes)) return std::free(memory);
  const auto registered = registered_.find(memory);
  registrations_.remove(*registered->second);
  registered_.erase(registered);
  (void)heap_.free(memory);
}

}  // namespace ibcoll
