// How the ranks of a server set their shared region up, and the rings in it.

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "engine/base/copy.h"
#include "engine/base/pages.h"
#include "shm/transport.h"

namespace ibcoll::shm {
namespace {

/// How much rings of a server with up to so many ranks hold.
struct Size {
  size_t ranks;
  /// Messages: where ranks share cores, a sender may be so many calls ahead of its receiver before
  /// it gives the core up.
  uint32_t lines;
  /// Of payloads. All rings together take half of the last cache, within these bounds: all pairs
  /// may have one, which would take gigabytes where there are many ranks.
  size_t least_bytes, most_bytes;
};
constexpr Size kSizes[] = {
    {16, 256, 64 << 10, 256 << 10}, {64, 64, 32 << 10, 32 << 10}, {SIZE_MAX, 16, 4 << 10, 4 << 10}};

IBCOLL_LIMIT(uint32_t, kMostLines, 256);
IBCOLL_LIMIT(size_t, kMostRingBytes, 256 << 10);

RingLayout ring_for(size_t ranks) {
  const Size& size = *std::find_if(std::begin(kSizes), std::end(kSizes),
                                   [ranks](const Size& one) { return ranks <= one.ranks; });
  const size_t share = last_level_cache_bytes() / 2 / std::max<size_t>(ranks * (ranks - 1), 1);
  const size_t bytes = std::clamp(share, size.least_bytes, size.most_bytes);
  return {std::min(size.lines, kMostLines),
          static_cast<uint32_t>(round_up(std::min(bytes, kMostRingBytes), kLineBytes))};
}

/// The longest payloads that go through a ring: two fit, so that one is written while the other is
/// read.
size_t most_in_ring(size_t ring_bytes) { return ring_bytes / 2; }

/// What ranks of one process copy through the ring at most of their private memory, which they read
/// at no cost.
constexpr size_t kEagerWithinProcess = 8192;

/// So many times what the ring of a peer holds is set aside of its messages before it is to hold
/// back what this rank has not asked for.
constexpr size_t kRingsSetAside = 4;

/// What peers try to read of this rank's private memory.
const uint64_t kProbed = 0x6962636f6c6c2121;
/// In so large a server not all pairs try: a million reads of a thousand ranks take seconds.
constexpr int kMostThatTryAll = 64;

}  // namespace

struct Transport::Introduction {
  uint64_t address;  ///< of a word that peers try to read
  int32_t pid;
};

struct Transport::Layout {
  size_t limits, introductions, readable, rings_made, gates, mails, rings, heaps, end;
  size_t mail_bytes, pair_bytes, heap_bytes;
  RingLayout ring;

  Layout(size_t ranks, size_t heap) {
    ring = ring_for(ranks);
    pair_bytes = round_up(ring.bytes(), 64);
    mail_bytes = MailQueue::bytes(NetworkTransport::kMaxMailBytes);
    heap_bytes = round_up(heap, page_bytes());
    size_t at = 0;
    const auto place = [&at](size_t bytes, size_t alignment) {
      const size_t begin = round_up(at, alignment);
      at = begin + bytes;
      return begin;
    };
    limits = place(sizeof(RingLimits), 64);
    introductions = place(ranks * sizeof(Introduction), 64);
    readable = place(ranks * ranks, 64);
    rings_made = place(ranks * ranks, 64);
    gates = place(Gates::bytes(ranks), 64);
    mails = place(ranks * mail_bytes, 64);
    rings = place(ranks * ranks * pair_bytes, 64);
    heaps = place(ranks * heap_bytes, page_bytes());
    end = at;
  }

  /// That of a region which so many ranks have agreed on.
  static Layout of(const SharedRegion& region, size_t ranks) {
    return {ranks, (region.size() - Layout(ranks, 0).heaps) / ranks};
  }

  RingLimits* limits_in(const SharedRegion& region) const {
    return reinterpret_cast<RingLimits*>(region.data() + limits);
  }
  Introduction* introductions_in(const SharedRegion& region) const {
    return reinterpret_cast<Introduction*>(region.data() + introductions);
  }
};

SharedRegion::Request Transport::region(Rank rank, const Shape& shape, const Options& options) {
  const int server = shape.server_of(rank);
  const auto ranks = static_cast<size_t>(shape.server_size(server));
  // Everything but rings and heaps; those get memory as they are used, and an error where there is
  // none.
  const auto prepare = [ranks, me = shape.local_of(rank)](SharedRegion& region) -> Status {
    const Layout layout = Layout::of(region, ranks);
    if (me == 0) {
      IBCOLL_TRY(region.reserve(0, layout.gates));
      IBCOLL_TRY(Gates(region, layout.gates, me, ranks).prepare());
    }
    const auto local = static_cast<size_t>(me);
    IBCOLL_TRY(region.reserve(layout.mails + local * layout.mail_bytes, layout.mail_bytes));
    layout.introductions_in(region)[me] = {reinterpret_cast<uint64_t>(&kProbed), getpid()};
    return {};
  };
  return {.colour = server,
          .bytes = Layout(ranks, options.heap_bytes).end,
          .name = "ibcoll-server",
          .smallest = true,  // their heaps'
          .prepare = prepare};
}

Result<std::unique_ptr<Transport>> Transport::create(Bootstrap& bootstrap, const Shape& shape,
                                                     const Bells& bells, const Options& options) {
  IBCOLL_ASSIGN(SharedRegion made,
                SharedRegion::create(bootstrap, region(bootstrap.rank(), shape, options)));
  return create(bootstrap, shape, bells, options, std::move(made));
}

Result<std::unique_ptr<Transport>> Transport::create(Bootstrap& bootstrap, const Shape& shape,
                                                     const Bells& bells, const Options& options,
                                                     SharedRegion region) {
  std::unique_ptr<Transport> self(new Transport);
  const Rank rank = bootstrap.rank();
  const int server = shape.server_of(rank);
  self->shape_ = &shape;
  self->options_ = options;
  self->me_ = shape.local_of(rank);
  self->size_ = shape.server_size(server);
  if (shape.consecutive(server)) self->first_rank_ = shape.rank_at(server, 0);
  prepare_bells(bells.of(rank));
  self->shares_address_space_ = bootstrap.shares_address_space();
  const size_t n = self->size_;
  const auto me = static_cast<size_t>(self->me_);
  const Layout layout = Layout::of(region, n);
  self->chunk_bytes_ = std::max<size_t>(layout.ring.payload_bytes / 8, 1024);
  self->most_set_aside_ = kRingsSetAside * layout.ring.payload_bytes;
  self->granted_bytes_ = layout.ring.payload_bytes;

  self->region_ = std::move(region);
  std::byte* base = self->region_.data();
  self->rings_made_at_ = layout.rings_made;
  self->gates_ = Gates(self->region_, layout.gates, self->me_, n);
  self->heap_ = std::make_unique<Heap>(self->region_, layout.heaps + me * layout.heap_bytes,
                                       layout.heap_bytes);
  self->receipts_.emplace(*self->heap_, base);
  self->peers_.resize(n);
  self->dirty_.reserve(n);
  const Introduction* const introductions = layout.introductions_in(self->region_);
  for (size_t peer = 0; peer < n; ++peer) {
    Peer& p = self->peers_[peer];
    p.rank = shape.rank_at(server, static_cast<int>(peer));
    p.bell = &bells.of(p.rank);
    p.pid = introductions[peer].pid;
    // A receiver's rings lie side by side: it polls them together.
    p.outgoing = Ring(base + layout.rings + (peer * n + me) * layout.pair_bytes, layout.ring);
    p.incoming = Ring(base + layout.rings + (me * n + peer) * layout.pair_bytes, layout.ring);
    p.mails =
        MailQueue(base + layout.mails + peer * layout.mail_bytes, NetworkTransport::kMaxMailBytes);
  }
  if (me == 0) *layout.limits_in(self->region_) = options.limits;
  IBCOLL_TRY(self->probe_private_reads(bootstrap, layout));
  // The ranks have met since the first one wrote these.
  self->set_limits(*layout.limits_in(self->region_), layout.ring.payload_bytes);
  heed_bells(bells.all());
  return self;
}

Transport::~Transport() = default;

MemoryItems Transport::memory(const LocalLoad& load) {
  const size_t ranks = load.ranks, page = page_bytes();
  const Layout layout(ranks, 0);
  // A receiver looks now and then how far it has come: payloads use so many places by turns.
  constexpr size_t kPlaces = Ring::kHot;
  const bool copied =
      load.longest > kInlineBytes &&
      load.longest <= std::min(RingLimits{}.of_private, most_in_ring(layout.ring.payload_bytes));
  const size_t payloads = copied ? std::min<size_t>(kPlaces * round_up(load.longest, kLineBytes),
                                                    layout.ring.payload_bytes)
                                 : 0;
  const size_t lines = sizeof(RingControl) + layout.ring.lines * kLineBytes;
  // They begin amid pages, and have neighbours there.
  const size_t ring = std::min(lines + payloads + page, layout.pair_bytes);
  const size_t mails = std::min<size_t>(load.local_mails, MailQueue::kMails) * page + page;
  // Its own row of each table of pairs.
  const size_t pairs = sizeof(Introduction) + 2 * ranks;
  const size_t gates = load.gates ? Gates::touched_bytes(ranks) : 0;
  const size_t gates_there = std::max(Gates::prepared_bytes(), gates);
  return {
      // One of its own and one of the partner's for either direction, each shared by two ranks.
      {.part = MemoryPart::kShared,
       .what = "rings of ranks of the server",
       .bytes = load.partners * ring,
       .reserved = load.partners * (layout.pair_bytes - ring)},
      {.part = MemoryPart::kMails,
       .what = "queue of mails from ranks of the server",
       .bytes = std::min(mails, layout.mail_bytes),
       .reserved = layout.mail_bytes - std::min(mails, layout.mail_bytes)},
      {.part = MemoryPart::kShared,
       .what = "gates, and who has which ring",
       .bytes = pairs + gates / ranks,
       .reserved = (gates_there - gates) / ranks},
      {.part = MemoryPart::kTables,
       .what = "ranks of the server",
       .bytes = ranks * sizeof(Peer) +
                load.partners * (layout.ring.lines * sizeof(uint32_t) + sizeof(LearnedWays))},
  };
}

void Transport::set_limits(const RingLimits& limits, size_t ring_bytes) {
  options_.limits = limits;
  most_ = longest_limits(size_);
  for (RingLimits* const all : {&options_.limits, &most_}) {
    if (shares_address_space_) all->of_private = all->of_private_one_way = kEagerWithinProcess;
    for (size_t* const bytes :
         {&all->of_private, &all->of_private_one_way, &all->of_shared, &all->of_shared_one_way})
      *bytes = std::min(*bytes, most_in_ring(ring_bytes));
  }
}

/// Finds out which peers can read this rank's private memory: each reads a word of every other's,
/// or of some where there are many, and all tell what they found.
Status Transport::probe_private_reads(Bootstrap& bootstrap, const Layout& layout) {
  Introduction* const introductions = layout.introductions_in(region_);
  auto* const readable = reinterpret_cast<uint8_t*>(region_.data() + layout.readable);
  const auto bit = [&](int reader, int owner) -> uint8_t& {
    return readable[static_cast<size_t>(owner) * static_cast<size_t>(size_) +
                    static_cast<size_t>(reader)];
  };
  const auto can_read = [&](int i) {
    uint64_t value = 0;
    const iovec to{&value, sizeof(value)};
    const iovec from{reinterpret_cast<void*>(introductions[i].address), sizeof(value)};
    return shares_address_space_ ||
           (options_.allow_process_vm &&
            process_vm_readv(peers_[i].pid, &to, 1, &from, 1, 0) == sizeof(value) &&
            value == kProbed);
  };
  const auto try_all = [&] {
    for (int i = 0; i < size_; ++i) bit(me_, i) = can_read(i);
  };
  const bool is_large = size_ > kMostThatTryAll;
  uint8_t fails = 0;  // to read one of some
  if (is_large) {
    // What one process may read of another follows from their users and settings, which differ
    // between neighbours if at all.
    for (int apart = 1; apart < size_; apart *= 2)
      if (!can_read((me_ + apart) % size_)) fails = 1;
  } else {
    try_all();
  }
  // Where that fails on a large server its ranks meet again. All of the job's ranks do so with
  // them, and therefore have to know.
  std::vector<uint8_t> failing(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&fails, sizeof fails, failing.data()));
  const bool again = std::find(failing.begin(), failing.end(), 1) != failing.end();
  if (again) {
    if (is_large) try_all();
    IBCOLL_TRY(bootstrap.barrier());
  }
  for (int i = 0; i < size_; ++i) peers_[i].reads_me = (is_large && !again) || bit(i, me_) != 0;
  return {};
}

/// Set by a sender whose ring has memory behind it: until then its receiver must not look.
Shared<uint8_t>& Transport::ring_made(int receiver, int sender) {
  return reinterpret_cast<Shared<uint8_t>*>(
      region_.data() + rings_made_at_)[static_cast<size_t>(receiver) * static_cast<size_t>(size_) +
                                       static_cast<size_t>(sender)];
}

Status Transport::make_outgoing(Peer& peer) {
  const std::span<const std::byte> memory = peer.outgoing.memory();
  IBCOLL_TRY(region_.reserve(static_cast<size_t>(memory.data() - region_.data()), memory.size()));
  peer.outgoing.begin_producing();
  peer.outgoing.set_open(true);
  peer.outgoing_made = true;
  if (options_.learn)
    peer.learned.reset(new (std::nothrow) LearnedWays(options_.limits.round_trip_ns));
  ring_made(local(peer.rank), me_).store(1, std::memory_order_release);
  return {};
}

bool Transport::find_incoming(Peer& peer) {
  if (ring_made(me_, local(peer.rank)).load(std::memory_order_acquire) == 0) return false;
  const std::span<const std::byte> memory = peer.incoming.memory();
  region_.include_in_dumps(static_cast<size_t>(memory.data() - region_.data()), memory.size());
  return peer.incoming_made = true;
}

}  // namespace ibcoll::shm
