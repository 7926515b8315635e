#pragma once
/// What a test bed may see and change of the engine beside the order of its accesses
/// (shared_access.h). In the product there is nothing of it: limits are constants, nothing is
/// refused for no reason, and nobody counts.

#include <cstddef>
#include <cstdint>

namespace ibcoll {

/// The ways that the data of calls go.
enum class Way : uint8_t {
  kLine,      ///< in the cache line of a message
  kRing,      ///< through the ring of payloads
  kPull,      ///< read where they lie
  kSetAside,  ///< in a message that came before its call was made
  kChunk,     ///< through the ring in chunks
  kEager,     ///< with a mail
  kPut,       ///< by the network, to where the receiver exposed
  kForward,   ///< an exposure that a gateway passes on
};
inline constexpr int kWays = 8;

/// What may have no room although there is some.
enum class Room : uint8_t { kRing, kMailQueue, kPut, kMail, kSignal };
inline constexpr int kRooms = 5;

#ifdef IBCOLL_SHARED_ACCESS

/// What a copy is to be taken to have taken, in nanoseconds, whatever it took.
int64_t copy_took(int64_t ns);
/// Data have come that way; where they can be told, they lie there now.
void took(Way way, void* data = nullptr, size_t bytes = 0);
/// Whether there is no room this time, whatever there is.
bool refused_for_no_reason(Room room);
/// What stands in for a limit of that name. Of each name there is one.
template <class T>
const T& narrowed(const char* name, T product);
/// While there is one, memory that the thread asks for in vain is to end in an error of all ranks.
class MayLackMemory {
 public:
  MayLackMemory();
  ~MayLackMemory();
  MayLackMemory(const MayLackMemory&) = delete;
  MayLackMemory& operator=(const MayLackMemory&) = delete;
};

#else

constexpr int64_t copy_took(int64_t ns) { return ns; }
constexpr void took(Way, void* = nullptr, size_t = 0) {}
constexpr bool refused_for_no_reason(Room) { return false; }
struct MayLackMemory {};

#endif

}  // namespace ibcoll

/// A limit that a test bed may make smaller so that runs meet it: a constant of a class or file,
/// with the type and value that it has in the product.
#ifdef IBCOLL_SHARED_ACCESS
#define IBCOLL_LIMIT(type, name, value) \
  static inline const type& name = ::ibcoll::narrowed<type>(#name, value)
#else
#define IBCOLL_LIMIT(type, name, value) static constexpr type name = value
#endif
