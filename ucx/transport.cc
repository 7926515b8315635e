#include "ucx/transport.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/log.h"

namespace ibcoll::ucx {
namespace {

/// Polls between looks at the clock: one that found nothing weighs kIdleWeight.
constexpr uint32_t kPollsPerTick = 1024;
constexpr uint32_t kIdleWeight = 64;
/// What one poll lets UCX do before it hands out what has come.
constexpr int kProgressRounds = 4;
constexpr int kArmAttempts = 16;
constexpr size_t kBatch = 16;
constexpr int64_t kCloseNs = 1'000'000'000;

}  // namespace

UcxTransport::~UcxTransport() {
  closing_ = true;
  watch_.reset();
  if (addresses_.empty() || closed_) {
    worker_.reset();
    return;
  }
  // Peers may still write to this rank and make connections to it. UCX (1.13 at least) aborts the
  // process when one of its workers goes then, and that of a peer where endpoints do.
  log().debug("a worker of UCX is left as it is");
  std::ignore = worker_.release();
  std::ignore = context_.release();
}

Result<MemoryKey> UcxTransport::register_memory(void* base, size_t bytes) {
  IBCOLL_ASSIGN(const MemoryKey key, memory_->acquire(base, bytes));
  counters_.registrations = memory_->registrations();
  return key;
}

Result<MemoryKey> UcxTransport::register_spare(void* base, size_t bytes) {
  IBCOLL_ASSIGN(const MemoryKey key, memory_->acquire(base, bytes, true));
  counters_.registrations = memory_->registrations();
  return key;
}

/// The registration's number, and what ucp_put takes where it is used.
size_t UcxTransport::pack_key(const MemoryKey& key, std::span<std::byte> packed) const {
  std::memcpy(packed.data(), &key.remote, sizeof key.remote);
  const Registrar::Region* const region = memory_->find(key.local);
  if (region == nullptr || region->handle == 0) return sizeof key.remote;
  void* buffer = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ucp_->rkey_pack(
      context_->handle(), reinterpret_cast<ucp_mem_h>(region->handle), &buffer, &bytes);
  if (status != UCS_OK) return sizeof key.remote;  // data goes in messages then
  const bool fits = sizeof key.remote + bytes <= packed.size();
  if (fits) std::memcpy(packed.data() + sizeof key.remote, buffer, bytes);
  ucp_->rkey_buffer_release(buffer);
  return sizeof key.remote + (fits ? bytes : 0);
}

Result<uint64_t> UcxTransport::unpack_key(Rank rank, std::span<const std::byte> packed) {
  auto key = std::make_unique<RemoteKey>();
  if (packed.size() < sizeof key->number)
    return fail(ErrorCode::kInternal, "rank {} gave a memory key of {} bytes", rank, packed.size());
  std::memcpy(&key->number, packed.data(), sizeof key->number);
  if (packed.size() > sizeof key->number && puts_) {
    Peer& peer = enter(rank);
    if (peer.endpoint == nullptr) IBCOLL_TRY(connect(peer));
    forget_messages();
    const ucs_status_t status =
        ucp_->ep_rkey_unpack(peer.endpoint, packed.data() + sizeof key->number, &key->handle);
    if (status == UCS_ERR_UNREACHABLE) {
      key->handle = nullptr;  // data goes in messages
    } else if (status != UCS_OK) {
      return fail(ErrorCode::kSystem, "UCX can't use a memory key of rank {}: {}", rank,
                  explain(*ucp_, status));
    }
  }
  const auto unpacked = reinterpret_cast<uint64_t>(key.get());
  keys_.emplace(unpacked, std::move(key));
  return unpacked;
}

void UcxTransport::release_key(Rank, uint64_t released) {
  const auto found = keys_.find(released);
  if (found == keys_.end()) return;
  if (found->second->handle != nullptr) ucp_->rkey_destroy(found->second->handle);
  keys_.erase(found);
}

/// What is known of a peer, from its first message or the first to it.
Peer& UcxTransport::enter(Rank rank) {
  std::unique_ptr<Peer>& peer = peers_[static_cast<size_t>(rank)];
  if (!peer) {
    peer = std::make_unique<Peer>(*this, rank);
    known_.push_back(peer.get());
    counters_.queue_pairs = counters_.connections = known_.size();
  }
  return *peer;
}

/// The peer, if data can be sent to it.
Peer* UcxTransport::usable(Rank rank) {
  if (ended()) [[unlikely]]
    return nullptr;
  Peer* peer = peers_[static_cast<size_t>(rank)].get();
  if (peer && peer->endpoint) [[likely]]
    return peer;
  peer = &enter(rank);
  latch(connect(*peer));
  return ended() ? nullptr : peer;
}

Status UcxTransport::connect(Peer& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address =
      reinterpret_cast<const ucp_address_t*>(addresses_[static_cast<size_t>(peer.rank)].data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_broken, &peer};
  forget_messages();
  const ucs_status_t status = ucp_->ep_create(worker_->handle(), &params, &peer.endpoint);
  if (status == UCS_OK) return {};
  peer.endpoint = nullptr;
  return fail(ErrorCode::kPeerFailed, "no connection to rank {}: {}", peer.rank,
              explain(*ucp_, status));
}

size_t UcxTransport::poll(std::span<Arrival> arrivals) {
  return_mails();
  flush();
  for (int round = 0; round < kProgressRounds && ucp_->worker_progress(worker_->handle()) != 0;
       ++round) {
  }
  const size_t count = hand_out(arrivals);
  idle_ += count == 0 ? kIdleWeight : 1;
  if (idle_ >= kPollsPerTick) [[unlikely]] {
    idle_ = 0;
    tick(now_ns());
  }
  return count;
}

uint64_t UcxTransport::posted(Rank rank) const {
  const Peer* const peer = peers_[static_cast<size_t>(rank)].get();
  return peer ? peer->posted : 0;
}

uint64_t UcxTransport::completed(Rank rank) {
  Peer* const peer = peers_[static_cast<size_t>(rank)].get();
  if (!peer) return 0;
  while (peer->completed < peer->posted && peer->out(static_cast<uint32_t>(peer->completed)).idle())
    ++peer->completed;
  return peer->completed;
}

bool UcxTransport::wake_on_arrival(Bell& bell) {
  flush();
  idle_ = kPollsPerTick;  // polls are rare from now on: let each look after everything
  for (int attempt = 0; attempt < kArmAttempts; ++attempt) {
    const ucs_status_t status = ucp_->worker_arm(worker_->handle());
    if (status == UCS_OK) {
      const Status armed = watch_->arm(bell);
      latch(armed);
      return armed.has_value();
    }
    if (status != UCS_ERR_BUSY) {
      latch(
          fail(ErrorCode::kSystem, "UCX can't wait for arrivals: {}", ucp_->status_string(status)));
      return false;
    }
    ucp_->worker_progress(worker_->handle());
  }
  ring(bell);  // there is always something to do
  return true;
}

std::vector<NamedCounter> UcxTransport::details() const {
  return {{"flushes", flushes_},
          {"rendezvous", rendezvous_},
          {"credits", credits_},
          {"probes", probes_}};
}

bool UcxTransport::all_complete() {
  return std::all_of(known_.begin(), known_.end(), [](Peer* peer) {
    return !peer->credit_under_way && !peer->flush_wanted &&
           std::all_of(peer->outgoing.begin(), peer->outgoing.end(),
                       [](const Outgoing& message) { return message.idle(); });
  });
}

Status UcxTransport::close() {
  std::array<Arrival, kBatch> arrivals;
  while (!failure_ && !all_complete()) {
    poll(arrivals);
    if (const auto failure = bootstrap_->failure()) return tl::unexpected<Error>(failure->error());
    sched_yield();
  }
  if (failure_) return fail(failure_->code, "{}", failure_->what);
  // Who closes an endpoint before its peer has taken all breaks it for the peer.
  IBCOLL_TRY(bootstrap_->barrier());
  closing_ = closed_ = true;
  close_endpoints();
  return {};
}

/// Nothing is under way any more.
void UcxTransport::close_endpoints() {
  for (const auto& [unpacked, key] : keys_)
    if (key->handle != nullptr) ucp_->rkey_destroy(key->handle);
  keys_.clear();
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const int64_t end = now_ns() + kCloseNs;
  for (Peer* peer : known_) {
    if (peer->endpoint == nullptr) continue;
    const ucs_status_ptr_t request =
        ucp_->ep_close_nbx(std::exchange(peer->endpoint, nullptr), &how);
    if (!UCS_PTR_IS_PTR(request)) continue;
    while (ucp_->request_check_status(request) == UCS_INPROGRESS && now_ns() < end)
      ucp_->worker_progress(worker_->handle());
    ucp_->request_free(request);
  }
}

}  // namespace ibcoll::ucx
