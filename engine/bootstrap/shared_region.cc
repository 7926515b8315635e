#include "engine/bootstrap/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/pages.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/region_mailbox.h"

namespace ibcoll {

struct SharedRegion::Mapping {
  Mapping(UniqueFd fd, std::byte* data, size_t size) : fd(std::move(fd)), data(data), size(size) {}
  ~Mapping() { munmap(data, size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const UniqueFd fd;
  std::byte* const data;
  const size_t size;
};

namespace {

/// Memory is reserved in pieces, so that ranks which reserve at the same time see each other's.
constexpr size_t kReservePiece = size_t{64} << 20;
/// What is left to the rest of the machine.
constexpr size_t kReserveMargin = size_t{64} << 20;

/// What each rank tells the others when a region is made.
struct RegionOffer {
  MachineId machine;
  int64_t colour = -1;
  uint64_t bytes = 0;
  MailboxName mailbox{};
  RegionOutcome ready;
};

Result<UniqueFd> make_memory(size_t bytes, std::string_view name) {
  const std::string label = fmt::format("ibcoll-{}", name);
  UniqueFd fd(memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("cannot create shared memory");
  rlimit largest{};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < bytes) {
    return fail(ErrorCode::kNoMemory,
                "shared memory of {} bytes is more than files may have ({}: ulimit -f); "
                "IBCOLL_HEAP makes it less",
                bytes, largest.rlim_cur);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(fmt::format("cannot make shared memory of {} bytes", bytes));
  // Nobody can shrink it under a peer that touches it.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

/// The mappings that threads of this process are about to share.
class ThreadMappings {
 public:
  /// Keeps a mapping until `takers` threads have taken it; the ticket to take it with.
  uint64_t put(std::shared_ptr<void> mapping, size_t takers) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(++last_ticket_, Waiting{std::move(mapping), takers});
    return last_ticket_;
  }
  std::shared_ptr<void> take(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(ticket);
    std::shared_ptr<void> mapping = found->second.mapping;
    if (--found->second.takers == 0) waiting_.erase(found);
    return mapping;
  }

 private:
  struct Waiting {
    std::shared_ptr<void> mapping;
    size_t takers = 0;
  };
  std::mutex mutex_;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Waiting> waiting_;
};

ThreadMappings& thread_mappings() {
  static ThreadMappings mappings;
  return mappings;
}

/// Whether `members` can share a region; the same answer on all of them.
Status check_offers(const std::vector<RegionOffer>& offers, const std::vector<Rank>& members) {
  const RegionOffer& first = offers[static_cast<size_t>(members.front())];
  for (const Rank member : members) {
    const RegionOffer& offer = offers[static_cast<size_t>(member)];
    IBCOLL_TRY(to_status(offer.ready));
    if (offer.bytes != first.bytes) {
      return fail(ErrorCode::kMismatch, "rank {} wants shared memory of {} bytes, rank {} of {}",
                  members.front(), first.bytes, member, offer.bytes);
    }
    if (!(offer.machine == first.machine)) {
      return fail(ErrorCode::kSystem,
                  "ranks {} and {} can't share memory: they are on different machines or in "
                  "different containers",
                  members.front(), member);
    }
  }
  if (first.bytes == 0) return fail(ErrorCode::kInvalidArgument, "shared memory of 0 bytes");
  return {};
}

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

/// The members' part of making a region: the lowest rank makes the memory and passes it on.
Result<UniqueFd> share_memory(Bootstrap& bootstrap, const RegionMailbox& mailbox,
                              const std::vector<RegionOffer>& offers,
                              const std::vector<Rank>& members, std::string_view name) {
  const Rank me = bootstrap.rank();
  if (members.front() != me) return mailbox.receive(bootstrap);
  auto memory = make_memory(offers[static_cast<size_t>(me)].bytes, name);
  const RegionOutcome outcome =
      to_outcome(memory ? Status{} : tl::unexpected<Error>(Error(memory.error())));
  for (const Rank member : members) {
    if (member == me) continue;
    const MailboxName& to = offers[static_cast<size_t>(member)].mailbox;
    if (const Status sent = mailbox.send(bootstrap, to, outcome, memory ? memory->get() : -1);
        !sent) {
      bootstrap.abort({me, sent.error().code, sent.error().message});  // or it would wait for ever
      return tl::unexpected<Error>(Error(sent.error()));
    }
  }
  return memory;
}

Result<std::byte*> map_memory(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED)
    return fail_errno(
        fmt::format("cannot map {} bytes of shared memory (IBCOLL_HEAP makes it less)", bytes));
  // Writing a core dump would touch every page, the unused ones of the heaps as well. Kernels that
  // can't leave memory out write it all.
  madvise(data, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(data);
}

}  // namespace

Result<SharedRegion> SharedRegion::create(Bootstrap& bootstrap, int colour, size_t bytes,
                                          std::string_view name) {
  const bool threads = bootstrap.shares_address_space();
  RegionMailbox mailbox;
  RegionOffer offer;
  offer.machine = this_machine();
  offer.colour = colour;
  offer.bytes = bytes;
  if (colour >= 0 && !threads) offer.ready = to_outcome(mailbox.open());
  offer.mailbox = mailbox.name();
  std::vector<RegionOffer> offers(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&offer, sizeof offer, offers.data()));

  // From here on all ranks, of whatever colour, make the same collective calls whatever fails.
  std::vector<Rank> members;
  for (size_t rank = 0; colour >= 0 && rank < offers.size(); ++rank)
    if (offers[rank].colour == colour) members.push_back(static_cast<Rank>(rank));
  const bool leader = !members.empty() && members.front() == bootstrap.rank();
  std::shared_ptr<Mapping> mapping;
  Status status;
  if (!members.empty()) status = check_offers(offers, members);
  if (status && (threads ? leader : !members.empty())) {
    auto memory = threads ? make_memory(bytes, name)
                          : share_memory(bootstrap, mailbox, offers, members, name);
    const auto data = memory ? map_memory(memory->get(), bytes) : tl::unexpected(memory.error());
    if (data)
      mapping = std::make_shared<Mapping>(std::move(*memory), *data, bytes);
    else
      status = tl::unexpected(data.error());
  }

  // One outcome for all members: the lowest rank's error, if there is one.
  RegionOutcome mine = to_outcome(status);
  if (threads && leader && mapping) mine.ticket = thread_mappings().put(mapping, members.size());
  std::vector<RegionOutcome> outcomes(offers.size());
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, outcomes.data()));
  for (const Rank member : members) IBCOLL_TRY(to_status(outcomes[static_cast<size_t>(member)]));
  SharedRegion region;
  if (members.empty()) return region;
  if (threads) {
    const uint64_t ticket = outcomes[static_cast<size_t>(members.front())].ticket;
    mapping = std::static_pointer_cast<Mapping>(thread_mappings().take(ticket));
  }
  region.data_ = mapping->data;
  region.size_ = mapping->size;
  region.fd_ = mapping->fd.get();
  region.mapping_ = std::move(mapping);
  return region;
}

/// The members are one more number each, where all share the region.
size_t SharedRegion::start_bytes_each_rank() {
  return sizeof(RegionOffer) + sizeof(RegionOutcome) + sizeof(Rank);
}

size_t SharedRegion::longest_record() {
  return std::max(sizeof(RegionOffer), sizeof(RegionOutcome));
}

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
