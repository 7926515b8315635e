#include "integrations/mpi/copies.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace ibcoll::mpi {

namespace {

/// Of a message to this rank itself, while it is under way: else those of several threads, or of
/// one amid whose wait the MPI's progress has this library deliver another call, would be taken for
/// each other's.
class OwnTag {
 public:
  OwnTag() {
    for (uint32_t taken = g_taken; bit_ == 0;) {
      const uint32_t free = ~taken & kAll;
      if (free == 0)
        taken = g_taken;
      else if (g_taken.compare_exchange_weak(taken, taken | (free & -free)))
        bit_ = free & -free;
    }
  }
  ~OwnTag() { g_taken &= ~bit_; }
  OwnTag(const OwnTag&) = delete;
  OwnTag& operator=(const OwnTag&) = delete;
  int tag() const { return Job::kFirstCopyTag + std::countr_zero(bit_); }

 private:
  static constexpr uint32_t kAll = (uint32_t{1} << Job::kCopyTags) - 1;
  static inline constinit std::atomic<uint32_t> g_taken{0};
  uint32_t bit_ = 0;
};

}  // namespace

bool copy_long(const Job& job, const void* from, Handle from_type, void* to, Handle to_type) {
  const OwnTag own;
  const Library& mpi = library();
  Handle request = 0;
  if (mpi.Irecv(to, 1, to_type, 0, own.tag(), job.alone, &request) != 0) return false;
  const bool sent = mpi.Send(from, 1, from_type, 0, own.tag(), job.alone) == 0;
  return mpi.Wait(&request, mpi.constants.status_ignore) == 0 && sent;
}

}  // namespace ibcoll::mpi
