// What comes from peers.

#include <algorithm>
#include <cstring>

#include "ucx/transport.h"

namespace ibcoll::ucx {
namespace {

/// Whether `value` is later than `than`, of numbers that run on without end.
bool later(uint32_t value, uint32_t than) { return static_cast<int32_t>(value - than) > 0; }

}  // namespace

ucs_status_t UcxTransport::on_message(void* argument, const void* header_bytes, size_t size,
                                      void* data, size_t bytes, const ucp_am_recv_param_t* how) {
  auto& self = *static_cast<UcxTransport*>(argument);
  Header header;
  if (size != sizeof header) {
    self.latch(fail(ErrorCode::kInternal, "a message with a head of {} bytes came", size));
    return UCS_OK;
  }
  std::memcpy(&header, header_bytes, size);
  if (header.from < 0 || static_cast<size_t>(header.from) >= self.peers_.size()) {
    self.latch(fail(ErrorCode::kInternal, "a message came from rank {}", header.from));
    return UCS_OK;
  }
  self.receive(header, data, bytes, (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  return UCS_OK;
}

void UcxTransport::receive(const Header& header, void* data, size_t bytes, bool rendezvous) {
  Peer& peer = enter(header.from);
  peer.heard = true;
  if (later(header.taken, peer.taken_there)) peer.taken_there = header.taken;
  if (later(header.mails_taken, peer.mails_taken_there))
    peer.mails_taken_there = header.mails_taken;
  if (header.kind == MessageKind::kCredit) return;
  Incoming& message = peer.in(header.number);
  if (header.number - peer.taken >= kWindow || message.present || message.under_way) {
    latch(fail(ErrorCode::kInternal, "message {} of rank {} came after {}", header.number,
               header.from, peer.taken));
    return;
  }
  message.peer = &peer;
  message.mail = header.kind == MessageKind::kMail;
  message.delivers = header.delivers;
  message.immediate = header.immediate;
  void* place = nullptr;
  if (message.mail) {
    place = mail_place(peer, message, header, bytes);
  } else if (bytes > 0) {
    place = data_place(header, bytes);
  }
  if (bytes > 0 && place == nullptr) return;  // an error was latched
  if (!rendezvous) {
    if (bytes > 0) std::memcpy(place, data, bytes);
    present(message);
    return;
  }
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.recv_am = on_data_received;
  how.user_data = &message;
  message.under_way = true;
  const ucs_status_ptr_t request =
      ucp_->am_recv_data_nbx(worker_->handle(), data, place, bytes, &how);
  if (!settled(request, peer)) return;
  message.under_way = false;
  if (!UCS_PTR_IS_ERR(request)) present(message);
}

void UcxTransport::on_data_received(void* request, ucs_status_t status, size_t, void* argument) {
  auto& message = *static_cast<Incoming*>(argument);
  UcxTransport& self = *message.peer->owner;
  self.ucp_->request_free(request);
  message.under_way = false;
  if (status == UCS_OK)
    self.present(message);
  else
    self.latch_broken(*message.peer, status);
}

/// Where the data of a put goes; null, and an error, where it must not.
void* UcxTransport::data_place(const Header& header, size_t bytes) {
  if (memory_->covers(header.key, header.address, bytes))
    return reinterpret_cast<void*>(header.address);
  latch(Failure{header.from, ErrorCode::kSystem,
                fmt::format("rank {} refused a write of rank {}, {} bytes to {:#x} with key {:#x}: "
                            "no registration covers them",
                            me_, header.from, bytes, header.address, header.key)});
  return nullptr;
}

void* UcxTransport::mail_place(Peer& peer, Incoming& message, const Header& header, size_t bytes) {
  if (bytes > max_data_mail_bytes() || header.mail_slot >= kMailsPerPeer) {
    latch(fail(ErrorCode::kInternal, "a mail of {} bytes came from rank {}", bytes, header.from));
    return nullptr;
  }
  message.mail_slot = header.mail_slot;
  message.mail_bytes = static_cast<uint32_t>(bytes);
  return peer.mails_in[header.mail_slot].make(bytes);
}

/// All of a message is here; it is handed out after those before it.
void UcxTransport::present(Incoming& message) {
  Peer& peer = *message.peer;
  message.present = true;
  if (peer.queued || !peer.in(peer.taken).present) return;
  peer.queued = true;
  ready_.push_back(&peer);
}

size_t UcxTransport::hand_out(std::span<Arrival> arrivals) {
  size_t count = 0;
  for (size_t i = 0; i < ready_.size() && count < arrivals.size();) {
    Peer& peer = *ready_[i];
    if (!hand_out_of(peer, arrivals, count)) {
      ++i;
      continue;
    }
    peer.queued = false;
    ready_[i] = ready_.back();
    ready_.pop_back();
  }
  // Who was not served now is first in the next round.
  if (!ready_.empty()) std::rotate(ready_.begin(), ready_.begin() + 1, ready_.end());
  return count;
}

/// True if nothing of that peer is left.
bool UcxTransport::hand_out_of(Peer& peer, std::span<Arrival> arrivals, size_t& count) {
  for (;; ++peer.taken) {
    Incoming& message = peer.in(peer.taken);
    if (!message.present) break;
    if (message.mail || message.delivers) {
      if (count == arrivals.size()) return false;
      Arrival& arrival = arrivals[count++];
      arrival = {};
      arrival.from = peer.rank;
      if (message.mail) {
        arrival.kind = Arrival::Kind::kMail;
        arrival.mail = {peer.mails_in[message.mail_slot].memory.get(), message.mail_bytes};
        taken_.push_back(&peer);
      } else {
        arrival.immediate = message.immediate;
      }
    }
    message.present = false;
  }
  if (peer.owes_credit()) send_credit(peer);
  return true;
}

}  // namespace ibcoll::ucx
