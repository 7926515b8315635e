#pragma once
/// A descriptor that belongs to this process alone.

#include <utility>

#include "engine/base/unique_fd.h"

namespace ibcoll {

/// Forked children, which inherit every descriptor, have /dev/null in its place: a connection then
/// ends with the process that made it, whatever its children do.
class ProcessFd {
 public:
  ProcessFd() = default;
  explicit ProcessFd(UniqueFd fd) : fd_(std::move(fd)) { mark(true); }
  ProcessFd(ProcessFd&&) = default;
  ProcessFd& operator=(ProcessFd&& other) noexcept {
    reset();
    fd_ = std::move(other.fd_);
    return *this;
  }
  ~ProcessFd() { reset(); }

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void reset() {
    mark(false);
    fd_.reset();
  }

 private:
  void mark(bool ours) const;

  UniqueFd fd_;
};

}  // namespace ibcoll
