#include "verbs/rc_transport.h"

#include <arpa/inet.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/base/clock.h"
#include "verbs/limit_errors.h"

namespace ibcoll::verbs {

namespace {

/// Immediates of sends: mails the sender has taken from the receiver, modulo 2^30; the top bit says
/// that there is no mail in it, and the next one that nothing comes after it.
constexpr uint32_t kCreditOnly = 1u << 31;
constexpr uint32_t kLast = 1u << 30;
constexpr uint32_t kCountMask = kLast - 1;
/// Polls between looks at the clock: one that found nothing weighs kIdleWeight.
constexpr uint32_t kPollsPerTick = 1024;
constexpr uint32_t kIdleWeight = 64;

/// Makes a request a write to that place.
void write_to(ibv_send_wr& work, RemoteAddress target, uint64_t immediate) {
  work.wr.rdma.remote_addr = target.address;
  work.wr.rdma.rkey = static_cast<uint32_t>(target.key);
  if (immediate != NetworkTransport::kNoSignal) {
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.imm_data = htonl(static_cast<uint32_t>(immediate));
  } else {
    work.opcode = IBV_WR_RDMA_WRITE;
  }
}

/// A put of several segments, cut into the requests it takes: one, unless its queue pair got fewer
/// pieces than the port has, or the device ends messages sooner.
struct Cut {
  std::span<const PutSegment> segments;
  uint32_t key;
  size_t max_bytes, max_pieces;  ///< of a request

  /// Calls use(pieces, bytes) for each request, in order.
  template <class Use>
  void for_each_request(Use&& use) const {
    std::array<Piece, kWantedSegments> pieces;
    size_t count = 0, bytes = 0;
    for (const PutSegment& segment : segments) {
      for (size_t begin = 0; begin < segment.bytes;) {
        if (count == max_pieces || bytes == max_bytes) {
          use(std::span<const Piece>(pieces).first(count), bytes);
          count = bytes = 0;
        }
        const size_t length = std::min(segment.bytes - begin, max_bytes - bytes);
        pieces[count++] = {segment.source + begin, static_cast<uint32_t>(length), key};
        begin += length;
        bytes += length;
      }
    }
    use(std::span<const Piece>(pieces).first(count), bytes);
  }
};

}  // namespace

Result<MemoryKey> RcTransport::register_memory(void* base, size_t bytes) {
  IBCOLL_ASSIGN(const MemoryKey key, memory_->acquire(base, bytes));
  counters_.registrations = memory_->registrations();
  return key;
}

Result<MemoryKey> RcTransport::register_spare(void* base, size_t bytes) {
  IBCOLL_ASSIGN(const MemoryKey key, memory_->acquire(base, bytes, true));
  counters_.registrations = memory_->registrations();
  return key;
}

void RcTransport::want(Rank rank) {
  const int64_t now = now_ns();
  latch_connection(connector_->want(rank, now), now);
}

/// The peer, if data can be sent to it; else asks for a connection.
RcTransport::Peer* RcTransport::usable(Rank rank) {
  if (failure_) [[unlikely]]
    return nullptr;
  if (slots_) return is_parted(rank) ? nullptr : usable_of_few(rank);
  Peer* peer = peers_.find(static_cast<size_t>(rank));
  const Connection* connection = connector_->connection(rank);
  if (peer && connection->usable()) [[likely]]
    return peer;
  if (is_parted(rank) || (connection && connection->broken)) return nullptr;
  if (!connection || !connection->wanted) {
    want(rank);
    connection = connector_->connection(rank);
  }
  return connection && connection->usable() ? &enter(rank) : nullptr;
}

/// The same where connections are limited.
RcTransport::Peer* RcTransport::usable_of_few(Rank rank) {
  if (!slots_->may_send(rank)) return nullptr;
  const Connection& connection = *connector_->connection(rank);
  if (!connection.usable() && !connection.wanted && !connection.broken) want(rank);
  return connection.usable() ? &enter(rank) : nullptr;
}

RcTransport::Peer& RcTransport::enter(Rank rank) {
  const auto number = static_cast<size_t>(rank);
  Peer* const known = peers_.find(number);
  if (known != nullptr && known->send.qp != nullptr) [[likely]]
    return *known;
  Peer& peer = known != nullptr ? *known : peers_.put(number, std::make_unique<Peer>());
  peer.send.peer = rank;
  peer.send.use(connector_->connection(rank)->qp);
  connected_.push_back(&peer);
  counters_.connections = connected_.size();
  if (known == nullptr) ++counters_.queue_pairs;
  return peer;
}

bool RcTransport::put(Rank rank, const void* source, const MemoryKey& source_key,
                      RemoteAddress target, size_t bytes, uint64_t immediate) {
  Peer* peer = usable(rank);
  if (!peer) return is_parted(rank);
  const size_t pieces = bytes == 0 ? 1 : (bytes + max_piece_ - 1) / max_piece_;
  if (!room(*peer, pieces, bytes)) return false;
  const auto* from = static_cast<const std::byte*>(source);
  for (size_t begin = 0, piece = 0; piece < pieces; ++piece, begin += max_piece_) {
    const auto length = static_cast<uint32_t>(std::min(bytes - begin, max_piece_));
    ibv_send_wr& work = sends_.append(
        peer->send, {from + begin, length, static_cast<uint32_t>(source_key.local)}, bytes > 0);
    write_to(work, {target.address + begin, target.key},
             piece + 1 == pieces ? immediate : kNoSignal);
  }
  count(bytes);
  sent(rank);
  return true;
}

/// For that many requests at once, of so many bytes together.
bool RcTransport::room(const Peer& peer, size_t requests, size_t bytes) {
  const size_t most = peer.send.depth - kReserved;
  if (requests > most) [[unlikely]] {
    latch(Failure{me_, ErrorCode::kInvalidArgument,
                  fmt::format("rank {} sends {} bytes at once; {} can send {} at most", me_, bytes,
                              device_.port().name(), max_piece_ * most)});
    return false;
  }
  return peer.send.room(static_cast<uint32_t>(requests));
}

size_t RcTransport::max_put_segments() const {
  // Where a queue pair takes one segment a request, all of a put have to fit.
  const PortInfo& port = device_.port();
  return std::min(wanted_segments(port), send_completions_.depth() - kReserved);
}

bool RcTransport::put_segments(Rank rank, std::span<const PutSegment> segments,
                               const MemoryKey& source_key, RemoteAddress target,
                               uint64_t immediate) {
  Peer* peer = usable(rank);
  if (!peer) return is_parted(rank);
  const Cut cut{segments, static_cast<uint32_t>(source_key.local), max_piece_,
                peer->send.max_segments};
  size_t requests = 0, bytes = 0;
  cut.for_each_request([&](std::span<const Piece>, size_t length) {
    ++requests;
    bytes += length;
  });
  if (!room(*peer, requests, bytes)) return false;
  cut.for_each_request([&](std::span<const Piece> pieces, size_t length) {
    write_to(sends_.append(peer->send, pieces, length, true), target,
             --requests == 0 ? immediate : kNoSignal);
    target.address += length;
  });
  count(bytes);
  sent(rank);
  if (segments.size() > 1) ++counters_.gathers;
  return true;
}

void RcTransport::count(size_t data_bytes) {
  if (data_bytes != kUncounted) counters_.count(data_bytes);
}

bool RcTransport::signal(Rank rank, uint32_t immediate) {
  return put(rank, nullptr, {}, {}, 0, immediate);
}

bool RcTransport::add_mail_slots(Peer& peer) {
  if (!free_mail_slots_.empty()) {
    peer.mail_slots = free_mail_slots_.back().memory;
    peer.mail_key = free_mail_slots_.back().key;
    free_mail_slots_.pop_back();
    return true;
  }
  if (slabs_.empty() || slabs_.back()->used == MailSlab::kPeers) {
    auto slab = std::make_unique<MailSlab>();
    slab->region = register_region(device_.domain(), slab->memory.data(), slab->memory.size(), 0);
    if (!slab->region) {
      latch(registration_error(device_, fmt::format("{} bytes of mail slots", slab->memory.size()),
                               slab->memory.size(), errno));
      return false;
    }
    slabs_.push_back(std::move(slab));
  }
  MailSlab& slab = *slabs_.back();
  peer.mail_slots = slab.memory.data() + slab.used++ * kMailsPerPeer * kMaxMailBytes;
  peer.mail_key = slab.region->lkey;
  return true;
}

bool RcTransport::mail(Rank rank, std::span<const std::byte> bytes, size_t data_bytes) {
  Peer* peer = usable(rank);
  if (!peer) return is_parted(rank);
  if (!peer->send.room(1) || peer->mails_sent - peer->mails_taken_there >= kMailsPerPeer)
    return false;
  if (!peer->mail_slots && !add_mail_slots(*peer)) return false;
  // The slot is free: the peer has taken the mail that was in it.
  std::byte* slot = peer->mail_slots + peer->mails_sent++ % kMailsPerPeer * kMaxMailBytes;
  std::memcpy(slot, bytes.data(), bytes.size());
  ibv_send_wr& work =
      sends_.append(peer->send, {slot, static_cast<uint32_t>(bytes.size()), peer->mail_key});
  work.opcode = IBV_WR_SEND_WITH_IMM;
  work.imm_data = htonl(peer->mails_taken_here & kCountMask);
  peer->mails_reported = peer->mails_taken_here;
  count(data_bytes);
  sent(rank);
  return true;
}

/// Tells a peer which of its mails were taken, where no mail does.
void RcTransport::send_credit(Peer& peer) {
  if (peer.last_sent || !connector_->connection(peer.send.peer)->usable() || !peer.send.room(1, 0))
    return;  // tried again after the next mail, or when the tick comes round
  ibv_send_wr& work = sends_.append(peer.send, {});
  work.opcode = IBV_WR_SEND_WITH_IMM;
  work.imm_data = htonl(kCreditOnly | (peer.mails_taken_here & kCountMask));
  peer.mails_reported = peer.mails_taken_here;
  ++credits_;
}

bool RcTransport::tell(Rank rank, ConnectionSlots::Word word) {
  using Word = ConnectionSlots::Word;
  switch (word) {
    case Word::kAsk:
    case Word::kOffer:
      want(rank);
      break;
    case Word::kAccept:
      latch(connector_->accept(rank, now_ns()));
      break;
    case Word::kClose: {
      Peer& peer = enter(rank);
      if (!peer.send.room(1, 0)) return false;
      send_last(peer);
      break;
    }
  }
  return true;
}

/// Tells a peer that nothing more comes over this connection. Its acknowledgement is asked for
/// here: whatever was sent to find out about it later might come to a queue pair that is gone.
void RcTransport::send_last(Peer& peer) {
  ibv_send_wr& work = sends_.append(peer.send, {});
  work.opcode = IBV_WR_SEND_WITH_IMM;
  work.imm_data = htonl(kCreditOnly | kLast | (peer.mails_taken_here & kCountMask));
  sends_.ask_for_last(peer.send);
  peer.last_sent = true;
}

bool RcTransport::has_arrived(Rank rank) {
  if (!connector_->connection(rank)->usable()) return false;
  Peer& peer = enter(rank);
  if (peer.last_sent) return peer.send.completed == peer.send.posted;
  // Asked for the second time it is known that nothing more is about to be posted.
  (void)sends_.completed(peer.send);
  return sends_.completed(peer.send) == peer.send.posted;
}

void RcTransport::lose(Rank rank) {
  part(rank);
  stop_sending(rank);  // what has come since may have made it a peer again
  latch(connector_->lose(rank));
}

/// Its queue pair stays for what it has sent.
void RcTransport::part(Rank rank) {
  std::erase_if(suspects_, [rank](const Suspect& one) { return one.peer == rank; });
  has_suspects_ = !suspects_.empty();
  if (is_parted(rank)) return;
  parted_.push_back(rank);
  if (slots_) slots_->lose(rank);
  stop_sending(rank);
  connector_->part(rank);
}

void RcTransport::stop_sending(Rank rank) {
  Peer* const peer = peers_.find(static_cast<size_t>(rank));
  if (peer == nullptr || peer->send.qp == nullptr) return;
  sends_.drop(peer->send);
  forget(*peer);
}

/// Of a connection that is no more.
void RcTransport::forget(Peer& peer) {
  peer.send.qp = nullptr;
  peer.last_sent = false;
  peer.last_failed.reset();
  if (peer.mail_slots != nullptr) free_mail_slots_.push_back({peer.mail_slots, peer.mail_key});
  peer.mail_slots = nullptr;
  std::erase(connected_, &peer);
  counters_.connections = connected_.size();
}

/// All mails of either end have been taken: the counts of both say so when they connect anew.
void RcTransport::ended(Rank rank) {
  Peer& peer = *peers_.find(static_cast<size_t>(rank));
  peer.mails_taken_there = peer.mails_sent;
  peer.mails_reported = peer.mails_taken_here;
  forget(peer);
  connector_->close(rank);
}

/// The mails of the last poll have been read.
void RcTransport::return_mails() {
  for (const TakenMail& mail : taken_) {
    latch(receives_.give_back(mail.receive));
    ++mail.peer->mails_taken_here;
    if (mail.peer->mails_taken_here - mail.peer->mails_reported >= kMailsPerPeer)
      send_credit(*mail.peer);
  }
  taken_.clear();
}

size_t RcTransport::poll(std::span<Arrival> arrivals) {
  return_mails();
  flush();
  take_sends();
  const size_t count = take_arrivals(arrivals);
  idle_ += count == 0 ? kIdleWeight : 1;
  if (idle_ >= kPollsPerTick) [[unlikely]] {
    idle_ = 0;
    tick(now_ns());
  }
  if (slots_ && !failure_) {
    if (slots_->advance()) wake();
    flush();
  }
  return count;
}

void RcTransport::take_sends() {
  std::array<ibv_wc, kBatch> done;
  const int count = ibv_poll_cq(send_completions_.get(), kBatch, done.data());
  if (count < 0) [[unlikely]] {
    latch(fail(ErrorCode::kSystem, "{}: a completion queue failed", device_.port().name()));
    return;
  }
  for (int i = 0; i < count; ++i) {
    const Rank rank = SendQueue::peer_of(done[i].wr_id);
    Peer& peer = *peers_.find(static_cast<size_t>(rank));
    if (peer.send.qp == nullptr) [[unlikely]]
      continue;  // of a queue pair that is no more
    if (done[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      // A peer that has closed the connection, too, may be gone before it has acknowledged that: it
      // has told, though this rank may not have come to that yet.
      if (!peer.last_sent) {
        latch_send_error(done[i]);
        continue;
      }
      peer.last_failed = done[i];
      peer.silent_since_ns = now_ns();
    }
    peer.heard = true;
    sends_.complete(peer.send, done[i].wr_id);
  }
}

size_t RcTransport::take_arrivals(std::span<Arrival> arrivals) {
  std::array<ibv_wc, kBatch> done;
  const int count = ibv_poll_cq(arrivals_.get(),
                                static_cast<int>(std::min(kBatch, arrivals.size())), done.data());
  if (count < 0) [[unlikely]] {
    latch(fail(ErrorCode::kSystem, "{}: a completion queue failed", device_.port().name()));
    return 0;
  }
  size_t handed_out = 0;
  for (int i = 0; i < count; ++i) handed_out += take_arrival(done[i], arrivals[handed_out]);
  return handed_out;
}

/// False: nothing for the caller.
bool RcTransport::take_arrival(const ibv_wc& done, Arrival& arrival) {
  const Rank from = connector_->peer_of(done.qp_num);
  if (done.status != IBV_WC_SUCCESS || from < 0) [[unlikely]] {
    if (from >= 0 && done.status != IBV_WC_WR_FLUSH_ERR)
      latch(Failure{from, ErrorCode::kSystem,
                    fmt::format("rank {} on {}: a receive from rank {} failed: {}", me_,
                                device_.port().name(), from, ibv_wc_status_str(done.status))});
    latch(receives_.give_back(done.wr_id));
    return false;
  }
  connector_->connection(from)->peer_ready = true;
  Peer& peer = enter(from);
  peer.heard = true;
  if (slots_) (void)slots_->received(from);
  const uint32_t immediate = ntohl(done.imm_data);
  if (done.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    arrival = {Arrival::Kind::kSignal, from, immediate, {}};
    latch(receives_.give_back(done.wr_id));
    return true;
  }
  peer.mails_taken_there += (immediate - peer.mails_taken_there) & kCountMask;
  if (immediate & kCreditOnly) {
    if (immediate & kLast) (void)slots_->heard(from, ConnectionSlots::Word::kClose);
    latch(receives_.give_back(done.wr_id));
    return false;
  }
  arrival = {Arrival::Kind::kMail, from, 0, receives_.buffer(done.wr_id, done.byte_len)};
  taken_.push_back({&peer, done.wr_id});
  return true;
}

uint64_t RcTransport::posted(Rank rank) const {
  const Peer* peer = peers_.find(static_cast<size_t>(rank));
  return peer ? peer->send.posted : 0;
}

uint64_t RcTransport::completed(Rank rank) {
  Peer* peer = peers_.find(static_cast<size_t>(rank));
  return peer ? sends_.completed(peer->send) : 0;
}

void RcTransport::flush() {
  if (!failure_) [[likely]]
    latch(sends_.flush());
}

bool RcTransport::wake_on_arrival(Bell& bell) {
  bell_ = &bell;
  flush();
  const Status armed = watch_->arm(bell);
  latch(armed);
  idle_ = kPollsPerTick;  // polls are rare from now on: let each look after everything
  return armed.has_value();
}

std::vector<NamedCounter> RcTransport::details() const {
  const PortCounters::Values port = port_counters_->since_start();
  std::vector<NamedCounter> all = {{"doorbells", sends_.doorbells()},
                                   {"completions", sends_.completions()},
                                   {"credits", credits_},
                                   {"probes", probes_},
                                   {"port_receiver_not_ready", port.rnr},
                                   {"port_retries", port.retries}};
  if (slots_) all.push_back({"connections_closed", slots_->closed()});
  return all;
}

bool RcTransport::all_complete() {
  return std::all_of(connected_.begin(), connected_.end(), [this](Peer* peer) {
    return connector_->connection(peer->send.peer)->broken ||
           sends_.completed(peer->send) == peer->send.posted;
  });
}

/// What a device has been given it reads until it is through. A peer that answers has it all soon,
/// whatever its program does; nobody gets data of which an error keeps the rest.
void RcTransport::withdraw() {
  constexpr int64_t kLongestNs = 200'000'000;
  drain(kLongestNs);
}

void RcTransport::drain(int64_t longest_ns) {
  flush();
  for (const int64_t until = now_ns() + longest_ns; !all_complete() && now_ns() < until;) {
    flush();
    take_sends();
    sched_yield();
  }
}

Status RcTransport::close() {
  std::array<Arrival, kBatch> arrivals;
  std::optional<Failure> failed = failure();
  for (; !failed && (has_suspects() || !all_complete()); failed = failure()) {
    poll(arrivals);
    if (const auto failure = bootstrap_->failure()) return tl::unexpected<Error>(failure->error());
    sched_yield();
  }
  if (failed) return fail(failed->code, "{}", failed->what);
  // A queue pair destroyed before the last acknowledgement has arrived would give the peer an
  // error.
  return bootstrap_->barrier();
}

}  // namespace ibcoll::verbs
