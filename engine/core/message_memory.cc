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
  auto* const begin = static_cast<std::byte*>(memory);
  Status added;
  try {
    added = add(begin, bytes);
  } catch (...) {
    let_go(begin);
    throw;
  }
  if (!added) {
    let_go(begin);
    return tl::unexpected<Error>(added.error());
  }
  return begin;
}

/// Registers memory of the heap. Where that fails, or there is no memory for it, let_go() undoes
/// it.
Status MessageMemory::add(std::byte* begin, size_t bytes) {
  std::unique_ptr<UserRegistration>& registration = registered_[begin];
  registration = std::make_unique<UserRegistration>();
  registration->begin = begin;
  registration->bytes = bytes;
  return registrations_.add(*registration);
}

void MessageMemory::let_go(std::byte* begin) {
  const auto registered = registered_.find(begin);
  if (registered != registered_.end()) {
    if (registered->second != nullptr) registrations_.remove(*registered->second);
    registered_.erase(registered);
  }
  (void)heap_.free(begin);
}

void MessageMemory::give_back(std::byte* memory, size_t bytes) {
  if (is_private(bytes)) return std::free(memory);
  let_go(memory);
}

}  // namespace ibcoll
