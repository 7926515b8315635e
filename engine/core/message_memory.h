#pragma once
/// The memory of messages that come unasked.

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "engine/base/result.h"
#include "engine/execute/user_registrations.h"
#include "shm/heap.h"

namespace ibcoll {

/// Long messages lie in the shared heap, where ranks of the server reach them, and are registered
/// as long as their memory is kept; short ones, which come as mails, lie in memory of this rank
/// alone.
class MessageMemory {
 public:
  /// Both must outlive it.
  MessageMemory(shm::Heap& heap, UserRegistrations& registrations)
      : heap_(heap), registrations_(registrations) {}

  /// Ends all registrations.
  ~MessageMemory();
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  /// `bytes`: a multiple of 64. Aligned to 64 bytes.
  Result<std::byte*> take(size_t bytes);
  void give_back(std::byte* memory, size_t bytes);

 private:
  Status add(std::byte* begin, size_t bytes);
  void let_go(std::byte* begin);

  shm::Heap& heap_;
  UserRegistrations& registrations_;
  std::unordered_map<const std::byte*, std::unique_ptr<UserRegistration>> registered_;
};

}  // namespace ibcoll
