// What goes to peers: messages, puts, and what was taken of theirs.

#include <algorithm>
#include <cstring>
#include <utility>

#include "ucx/transport.h"

namespace ibcoll::ucx {

/// The next message to a peer that has room for it.
Outgoing& UcxTransport::number(Peer& peer, MessageKind kind, uint64_t immediate) {
  // What had its place has been taken, and all before it.
  if (peer.posted >= kWindow) peer.completed = std::max(peer.completed, peer.posted + 1 - kWindow);
  Outgoing& message = peer.out(peer.sent);
  message.peer = &peer;
  message.call = posts_for_;
  message.mark = marks_;
  message.header = {};
  message.header.number = peer.sent++;
  message.header.from = me_;
  message.header.kind = kind;
  message.header.delivers = immediate != kNoSignal;
  message.header.immediate = static_cast<uint32_t>(immediate);
  ++peer.posted;
  stays(peer);
  return message;
}

void UcxTransport::count(size_t data_bytes) {
  if (data_bytes != kUncounted) counters_.count(data_bytes);
}

/// `data`: bytes, or pieces of them; so many.
void UcxTransport::send(Outgoing& message, const void* data, size_t count, bool pieces,
                        size_t bytes) {
  Peer& peer = *message.peer;
  Header& header = message.header;
  header.taken = peer.taken_reported = peer.taken;
  header.mails_taken = peer.mails_reported = peer.mails_taken;
  const bool rendezvous = bytes > options_.most_eager;
  ucp_request_param_t how{};
  how.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  how.cb.send = bytes > 0 ? on_data_read : on_other_done;
  how.user_data = &message;
  if (pieces) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    how.datatype = ucp_dt_make_iov();
  }
  const ucs_status_ptr_t request =
      ucp_->am_send_nbx(peer.endpoint, kMessageId, &header, sizeof header, data, count, &how);
  if (settled(request, peer)) return;
  ++(bytes > 0 ? message.reading : message.others);
  if (rendezvous) ++rendezvous_;
}

/// Whether UCX is done with what it was given already, or refused it.
bool UcxTransport::settled(ucs_status_ptr_t request, Peer& peer) {
  if (request == nullptr) return true;
  if (!UCS_PTR_IS_ERR(request)) return false;
  latch_broken(peer, UCS_PTR_STATUS(request));
  return true;
}

/// A request of that many of the message has ended.
void UcxTransport::complete(Outgoing& message, uint32_t& requests, void* request,
                            ucs_status_t status) {
  ucp_->request_free(request);
  --requests;
  if (status != UCS_OK) [[unlikely]]
    latch_broken(*message.peer, status);
}

void UcxTransport::on_data_read(void* request, ucs_status_t status, void* argument) {
  auto& message = *static_cast<Outgoing*>(argument);
  message.peer->owner->complete(message, message.reading, request, status);
}

void UcxTransport::on_other_done(void* request, ucs_status_t status, void* argument) {
  auto& message = *static_cast<Outgoing*>(argument);
  message.peer->owner->complete(message, message.others, request, status);
}

bool UcxTransport::put(Rank rank, const void* source, const MemoryKey& source_key,
                       RemoteAddress target, size_t bytes, uint64_t immediate) {
  const PutSegment segment{static_cast<const std::byte*>(source), bytes};
  return post(rank, {&segment, bytes == 0 ? size_t{0} : 1}, source_key, target, immediate);
}

bool UcxTransport::put_segments(Rank rank, std::span<const PutSegment> segments,
                                const MemoryKey& source_key, RemoteAddress target,
                                uint64_t immediate) {
  if (!post(rank, segments, source_key, target, immediate)) return false;
  if (segments.size() > 1) ++counters_.gathers;
  return true;
}

bool UcxTransport::signal(Rank rank, uint32_t immediate) {
  return post(rank, {}, {}, {}, immediate);
}

bool UcxTransport::post(Rank rank, std::span<const PutSegment> segments,
                        const MemoryKey& source_key, RemoteAddress target, uint64_t immediate) {
  Peer* const peer = usable(rank);
  if (!peer) return false;
  size_t bytes = 0;
  for (const PutSegment& segment : segments) bytes += segment.bytes;
  const auto parts =
      segments.size() == 1
          ? static_cast<uint32_t>((bytes + options_.part_bytes - 1) / options_.part_bytes)
          : 1;
  if (parts > 1 && parts <= kWindow / 2 && !puts_ && bytes <= options_.most_in_parts) {
    if (!peer->room(parts)) return false;
    count(bytes);
    send_in_parts(*peer, segments[0], target, immediate);
    return true;
  }
  if (!peer->room(1)) return false;
  Outgoing& message = number(*peer, MessageKind::kData, immediate);
  count(bytes);
  if (bytes == 0) {
    send(message, nullptr, 0, false, 0);
    return true;
  }
  const auto& key = *reinterpret_cast<const RemoteKey*>(target.key);
  if (key.handle != nullptr && bytes > options_.most_in_message) {
    write(message, key, segments, source_key, target);
    return true;
  }
  message.header.address = target.address;
  message.header.key = key.number;
  if (segments.size() == 1) {
    send(message, segments[0].source, bytes, false, bytes);
    return true;
  }
  if (!peer->pieces) peer->pieces = std::make_unique<Peer::Pieces[]>(kWindow);
  Peer::Pieces& pieces = peer->pieces[message.header.number % kWindow];
  for (size_t i = 0; i < segments.size(); ++i)
    pieces[i] = {const_cast<std::byte*>(segments[i].source), segments[i].bytes};
  send(message, pieces.data(), segments.size(), true, bytes);
  return true;
}

/// As messages that the network takes whole, so that UCX neither puts them together again at the
/// receiver nor asks it first. The last one tells of the put.
void UcxTransport::send_in_parts(Peer& peer, PutSegment rest, RemoteAddress target,
                                 uint64_t immediate) {
  const uint64_t key = reinterpret_cast<const RemoteKey*>(target.key)->number;
  while (rest.bytes > 0) {
    const size_t bytes = std::min(rest.bytes, options_.part_bytes);
    Outgoing& message =
        number(peer, MessageKind::kData, bytes == rest.bytes ? immediate : kNoSignal);
    message.header.address = target.address;
    message.header.key = key;
    send(message, rest.source, bytes, false, bytes);
    rest = {rest.source + bytes, rest.bytes - bytes};
    target.address += bytes;
  }
}

/// As puts: the message follows when a flush says that they have arrived.
void UcxTransport::write(Outgoing& message, const RemoteKey& key,
                         std::span<const PutSegment> segments, const MemoryKey& source_key,
                         RemoteAddress target) {
  Peer& peer = *message.peer;
  message.unflushed = true;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = on_data_read;
  how.user_data = &message;
  if (const Registrar::Region* const region = memory_->find(source_key.local);
      region && region->handle != 0) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    how.memh = reinterpret_cast<ucp_mem_h>(region->handle);
  }
  for (const PutSegment& segment : segments) {
    const ucs_status_ptr_t request = ucp_->put_nbx(peer.endpoint, segment.source, segment.bytes,
                                                   target.address, key.handle, &how);
    if (!settled(request, peer)) ++message.reading;
    target.address += segment.bytes;
  }
  if (!peer.flush_wanted) {
    peer.flush_wanted = true;
    peer.first_unflushed = message.header.number;
    unflushed_.push_back(&peer);
  }
  peer.last_unflushed = message.header.number;
}

void UcxTransport::flush() {
  for (Peer* peer : unflushed_) flush(*peer);
  unflushed_.clear();
}

void UcxTransport::flush(Peer& peer) {
  peer.flush_wanted = false;
  Outgoing& last = peer.out(peer.last_unflushed);
  last.flush_from = peer.first_unflushed;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = on_flushed;
  how.user_data = &last;
  ++flushes_;
  if (peer.broken) return;
  const ucs_status_ptr_t request = ucp_->ep_flush_nbx(peer.endpoint, &how);
  if (!settled(request, peer))
    ++last.others;
  else if (!ended())
    flushed(last);
}

void UcxTransport::on_flushed(void* request, ucs_status_t status, void* argument) {
  auto& last = *static_cast<Outgoing*>(argument);
  UcxTransport& self = *last.peer->owner;
  self.complete(last, last.others, request, status);
  if (status == UCS_OK) self.flushed(last);
}

/// The puts up to that one are in the peer's memory.
void UcxTransport::flushed(Outgoing& last) {
  Peer& peer = *last.peer;
  const uint32_t end = last.header.number + 1;
  for (uint32_t at = last.flush_from; at != end; ++at) {
    Outgoing& message = peer.out(at);
    if (!std::exchange(message.unflushed, false)) continue;
    send(message, nullptr, 0, false, 0);
  }
}

bool UcxTransport::mail(Rank rank, std::span<const std::byte> bytes, size_t data_bytes) {
  Peer* const peer = usable(rank);
  if (!peer || !peer->room(1) || peer->mails_sent - peer->mails_taken_there >= kMailsPerPeer)
    return false;
  Outgoing& message = number(*peer, MessageKind::kMail, kNoSignal);
  // The slot is free: the peer has taken the mail that was in it.
  message.header.mail_slot = static_cast<uint16_t>(peer->mails_sent++ % kMailsPerPeer);
  std::byte* const slot = peer->mails_out[message.header.mail_slot].make(bytes.size());
  std::memcpy(slot, bytes.data(), bytes.size());
  send(message, slot, bytes.size(), false, bytes.size());
  count(data_bytes);
  return true;
}

/// Tells a peer what of its messages was taken, where no message does.
void UcxTransport::send_credit(Peer& peer) {
  if (peer.credit_under_way || peer.broken || ended()) return;  // tried again, see tick()
  if (peer.endpoint == nullptr) {
    latch(connect(peer));
    if (peer.endpoint == nullptr) return;
  }
  peer.credit = {};
  peer.credit.from = me_;
  peer.credit.kind = MessageKind::kCredit;
  peer.credit.taken = peer.taken_reported = peer.taken;
  peer.credit.mails_taken = peer.mails_reported = peer.mails_taken;
  ucp_request_param_t how{};
  how.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_EAGER;
  how.cb.send = on_credit_sent;
  how.user_data = &peer;
  ++credits_;
  peer.credit_under_way = !settled(ucp_->am_send_nbx(peer.endpoint, kMessageId, &peer.credit,
                                                     sizeof peer.credit, nullptr, 0, &how),
                                   peer);
}

void UcxTransport::on_credit_sent(void* request, ucs_status_t status, void* argument) {
  Peer& peer = *static_cast<Peer*>(argument);
  peer.credit_under_way = false;
  peer.owner->ucp_->request_free(request);
  if (status != UCS_OK)
    peer.owner->latch_broken(peer, status);
  else if (peer.owes_credit())
    peer.owner->send_credit(peer);  // a sender may stand still for what was taken meanwhile
}

/// A message is sent to that peer.
void UcxTransport::stays(Peer& peer) {
  if (!std::exchange(peer.stays, true)) staying_.push_back(&peer);
}

uint64_t UcxTransport::mark() { return marks_++; }

/// Credits hold up no call: who waits for one waits for a call that this rank has yet to make.
std::optional<Rank> UcxTransport::held_by(uint64_t call, uint64_t mark, RankSpan members) {
  std::optional<Rank> holder;
  for (size_t i = 0; i < staying_.size();) {
    Peer& peer = *staying_[i];
    if (completed(peer.rank) == peer.posted) {
      peer.stays = false;
      staying_[i] = staying_.back();
      staying_.pop_back();
      continue;
    }
    if (!holder && holds(peer, call, mark, members)) holder = peer.rank;
    ++i;
  }
  return holder;
}

/// Whether one of the messages that wait in UCX for that peer is of a call, or of none and before
/// the mark, to a member.
bool UcxTransport::holds(Peer& peer, uint64_t call, uint64_t mark, RankSpan members) {
  for (uint64_t at = peer.completed; at < peer.posted; ++at) {
    const Outgoing& message = peer.out(static_cast<uint32_t>(at));
    if (message.idle()) continue;
    if (message.call == call) return true;
    if (message.call == 0 && message.mark <= mark && members.find(peer.rank) < members.size())
      return true;
  }
  return false;
}

/// The mails of the last poll have been read.
void UcxTransport::return_mails() {
  for (Peer* peer : taken_) {
    ++peer->mails_taken;
    if (peer->owes_credit()) send_credit(*peer);
  }
  taken_.clear();
}

}  // namespace ibcoll::ucx
