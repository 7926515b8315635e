#pragma once
/// Memory that several processes of a machine map: a memfd passed by file descriptor, so nothing
/// appears in /dev/shm and nothing is left behind, whatever happens to the processes.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

class SharedMapping;

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

  /// What a rank asks for.
  struct Request {
    int colour = 0;         ///< ranks that pass the same (>= 0) share one region; -1 takes no part
    size_t bytes = 0;       ///< the same for all of a colour
    std::string_view name;  ///< shows in /proc/PID/maps
    bool smallest = false;  ///< `bytes` may differ, and the fewest count; the same on all ranks
    /// What this rank does in the region before create_all() returns on any rank that shares it;
    /// null: nothing. The lowest of these ranks does so before the others do. An error of one is
    /// that of all.
    std::function<Status(SharedRegion&)> prepare = nullptr;
  };
  /// The `prepare` that reserves all of a region.
  static Status reserve_all(SharedRegion& region) { return region.reserve(0, region.size()); }

  /// Collective over all ranks of the job, which ask for as many regions. Gives an empty region for
  /// each in which a rank takes no part. Fails with kNoMemory where the machine has not enough,
  /// kSystem where ranks of a colour are not on one machine, on all ranks of the colour alike.
  static Result<std::vector<SharedRegion>> create_all(Bootstrap& bootstrap,
                                                      std::span<const Request> requests);
  static Result<SharedRegion> create(Bootstrap& bootstrap, const Request& request);
  static Result<SharedRegion> create(Bootstrap& bootstrap, int colour, size_t bytes,
                                     std::string_view name) {
    return create(bootstrap, {.colour = colour, .bytes = bytes, .name = name});
  }

  /// What a rank holds for each rank of the job while so many regions are made, and the longest
  /// record of those that are exchanged for them.
  static size_t start_bytes_each_rank(size_t regions);
  static size_t longest_record(size_t regions);

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
  class Maker;
  explicit SharedRegion(std::shared_ptr<SharedMapping> mapping);

  std::shared_ptr<SharedMapping> mapping_;  ///< ranks that are threads share one
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
};

}  // namespace ibcoll
