#pragma once
/// Memory that several processes of a machine map: a memfd passed by file descriptor, so nothing
/// appears in /dev/shm and nothing is left behind, whatever happens to the processes.

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// A mapping of `size()` bytes, zero at first, shared by all ranks that created it with the same
/// colour. Pages not touched and not reserved cost nothing, and core dumps leave them out. Unmapped
/// on destruction.
class SharedRegion {
 public:
  SharedRegion() = default;
  SharedRegion(SharedRegion&& other) noexcept { *this = std::move(other); }
  SharedRegion& operator=(SharedRegion&& other) noexcept {
    mapping_ = std::move(other.mapping_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }

  /// Collective over all ranks of the job. Ranks that pass the same `colour` (>= 0) share one
  /// region; -1 takes no part and gets an empty region. `bytes` must be the same for all of a
  /// colour; `name` shows in /proc/PID/maps. Fails with kNoMemory where the machine has not enough,
  /// kSystem where ranks of a colour are not on one machine.
  static Result<SharedRegion> create(Bootstrap& bootstrap, int colour, size_t bytes,
                                     std::string_view name);

  /// What a rank holds for each rank of the job while a region is made, and the longest record of
  /// those that are exchanged for it.
  static size_t start_bytes_each_rank();
  static size_t longest_record();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return fd_; }

  /// Makes sure that [offset, offset + bytes) has memory behind it, so that touching it later can't
  /// fail. kNoMemory where the machine (or this process's memory cgroup) has not enough left;
  /// nothing is reserved then.
  /// A core dump of this process holds what it has reserved.
  Status reserve(size_t offset, size_t bytes);
  /// Gives the memory behind that range back; its content is lost. Pages that reach beyond the
  /// range are kept.
  Status release(size_t offset, size_t bytes);
  /// Core dumps of this process hold these bytes, too, though they are not reserved: for what is
  /// small or touched anyway. The kernel touches all of it when it writes one.
  void include_in_dumps(size_t offset, size_t bytes) const;

 private:
  struct Mapping;

  std::shared_ptr<Mapping> mapping_;  ///< ranks that are threads share one
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
};

}  // namespace ibcoll
