#pragma once
/// Memory without a name, which processes of a machine pass to each other by descriptor, as one of
/// them has mapped it.

#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace ibcoll {

/// Unmapped on destruction.
class SharedMapping {
 public:
  /// New memory, zero at first, whose size nobody can change. kNoMemory where files may not be as
  /// long. `name` shows in /proc/PID/maps.
  static Result<std::shared_ptr<SharedMapping>> make(size_t bytes, std::string_view name);
  /// Memory of that size that a peer has made.
  static Result<std::shared_ptr<SharedMapping>> map(UniqueFd memory, size_t bytes);

  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  SharedMapping(UniqueFd fd, std::byte* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}

  const UniqueFd fd_;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace ibcoll
