#pragma once
/// Memory that the program registers itself, for as long as it wants: calls whose buffers lie in it
/// have nothing to register, and its keys travel once.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/execute/regions.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// One of them. Stays where it is from add() to remove(), and after that as long as it is used.
struct UserRegistration {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  std::optional<MemoryKey> key;  ///< none on a single server
  RegionName region;
  uint32_t users = 0;  ///< buffers of calls under way

  const std::byte* end() const { return begin + bytes; }
};

/// Those of one rank; they may overlap. Making and ending one takes time in proportion to how many
/// there are, looking for one to the logarithm of that.
class UserRegistrations {
 public:
  /// `network`: null on a single server. Both must outlive it.
  UserRegistrations(NetworkTransport* network, OwnRegions& regions)
      : network_(network), regions_(regions) {}

  /// Registers the memory that `registration` names. Errors are the network's.
  Status add(UserRegistration& registration);
  /// Gives back what add() took, also where it failed half-way.
  void remove(UserRegistration& registration);

  /// One that covers all of that memory; null: none does.
  UserRegistration* find(const std::byte* begin, size_t bytes) const {
    if (rows_.empty()) return nullptr;
    UserRegistration* const widest = widest_before(begin + 1);
    return widest != nullptr && begin + bytes <= widest->end() ? widest : nullptr;
  }
  /// Whether one has any of that memory.
  bool touch(const std::byte* begin, size_t bytes) const {
    const UserRegistration* const widest = bytes == 0 ? nullptr : widest_before(begin + bytes);
    return widest != nullptr && begin < widest->end();
  }

 private:
  struct Row {
    UserRegistration* registration;
    UserRegistration* widest;  ///< that ends last, of this one and those before it
  };
  UserRegistration* widest_before(const std::byte* address) const;
  void find_widest(size_t from);

  NetworkTransport* network_;
  OwnRegions& regions_;
  std::vector<Row> rows_;  ///< by first address
};

}  // namespace ibcoll
