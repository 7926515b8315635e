#include "engine/bootstrap/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "engine/base/pages.h"
#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/shared_mapping.h"

namespace ibcoll {

namespace {

/// Memory is reserved in pieces, so that ranks which reserve at the same time see each other's.
constexpr size_t kReservePiece = size_t{64} << 20;
/// What is left to the rest of the machine.
constexpr size_t kReserveMargin = size_t{64} << 20;

/// The parts of [offset, offset + bytes) that have no memory behind them yet.
std::vector<ByteRange> holes_in(int fd, size_t offset, size_t bytes) {
  std::vector<ByteRange> holes;
  const size_t end = offset + bytes;
  while (offset < end) {
    const off_t found = lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
    const size_t data = found < 0 ? end : std::min(static_cast<size_t>(found), end);
    if (data > offset) holes.push_back({offset, data - offset});
    if (data == end) break;
    const off_t hole = lseek(fd, static_cast<off_t>(data), SEEK_HOLE);
    offset = hole < 0 ? end : static_cast<size_t>(hole);
  }
  return holes;
}

std::string format_amount(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

SharedRegion::SharedRegion(std::shared_ptr<SharedMapping> mapping)
    : mapping_(std::move(mapping)),
      data_(mapping_->data()),
      size_(mapping_->size()),
      fd_(mapping_->fd()) {}

Status SharedRegion::reserve(size_t offset, size_t bytes) {
  if (offset > size_ || bytes > size_ - offset) {
    return fail(ErrorCode::kInvalidArgument, "bytes {} to {} of a shared region of {} bytes",
                offset, offset + bytes, size_);
  }
  const std::vector<ByteRange> holes = holes_in(fd_, offset, bytes);
  size_t missing = 0, filled = 0;
  for (const ByteRange& hole : holes) missing += hole.bytes;
  Status status;
  for (const ByteRange& hole : holes) {
    for (size_t done = 0; status && done < hole.bytes;) {
      const size_t piece = std::min(hole.bytes - done, kReservePiece);
      // The kernel would rather kill processes than refuse, so look before every piece.
      const uint64_t available = available_memory();
      if (missing - filled > available - std::min(available, kReserveMargin)) {
        status = fail(ErrorCode::kNoMemory,
                      "not enough memory: {} wanted for shared buffers, {} available",
                      format_amount(missing), format_amount(available + filled));
      } else if (fallocate(fd_, 0, static_cast<off_t>(hole.offset + done),
                           static_cast<off_t>(piece)) == 0) {
        done += piece;
        filled += piece;
      } else if (errno != EINTR) {
        status = fail_errno(fmt::format("cannot reserve {} of memory", format_amount(missing)));
      }
    }
  }
  if (status) {
    include_in_dumps(offset, bytes);
  } else {
    for (const ByteRange& hole : holes) (void)release(hole.offset, hole.bytes);
  }
  return status;
}

Status SharedRegion::release(size_t offset, size_t bytes) {
  const ByteRange pages = pages_within(offset, bytes, page_bytes());
  if (pages.bytes == 0) return {};
  // Not by fallocate(), though it does the same: registrations of that memory with a device must
  // go, and what watches for that sees madvise() only.
  if (madvise(data_ + pages.offset, pages.bytes, MADV_REMOVE) != 0)
    return fail_errno(fmt::format("cannot give {} of memory back", format_amount(pages.bytes)));
  madvise(data_ + pages.offset, pages.bytes, MADV_DONTDUMP);
  return {};
}

void SharedRegion::include_in_dumps(size_t offset, size_t bytes) const {
  const ByteRange pages = pages_touched(offset, bytes, page_bytes());
  if (pages.bytes > 0) madvise(data_ + pages.offset, pages.bytes, MADV_DODUMP);
}

}  // namespace ibcoll
