#include "tests/threads_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "engine/transport/open.h"

namespace ibcoll::testing {

void ThreadsTransport::add() { register_network({.name = kName, .open = open}); }

Result<std::unique_ptr<NetworkTransport>> ThreadsTransport::open(const NetworkSetup& setup) {
  Bootstrap& bootstrap = setup.bootstrap;
  if (!bootstrap.shares_address_space())
    return fail(ErrorCode::kUnsupported, "the ranks are not threads of one process");
  const auto ranks = static_cast<size_t>(bootstrap.size());
  auto shared = std::make_shared<std::vector<Node>>(ranks);
  std::vector<std::shared_ptr<std::vector<Node>>*> all(ranks);
  const auto* const mine = &shared;
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  std::shared_ptr<std::vector<Node>> nodes = *all[0];
  IBCOLL_TRY(bootstrap.barrier());
  return std::unique_ptr<NetworkTransport>(
      new ThreadsTransport(bootstrap, setup.bells, std::move(nodes)));
}

Result<MemoryKey> ThreadsTransport::register_memory(void* base, size_t bytes) {
  Node& own = node(me_);
  const std::lock_guard lock(own.mutex);
  const auto begin = reinterpret_cast<uint64_t>(base);
  for (const auto& [number, region] : own.regions)
    if (begin >= region.address && begin + bytes <= region.address + region.bytes)
      return MemoryKey{number, number, number};
  const uint64_t number = own.regions.size() + 1;
  own.regions[number] = {begin, bytes};
  ++counters_.registrations;
  return MemoryKey{number, number, number};
}

size_t ThreadsTransport::pack_key(const MemoryKey& key, std::span<std::byte> packed) const {
  std::memset(packed.data(), 0, kKeyBytes);
  std::memcpy(packed.data(), &key.remote, sizeof key.remote);
  return kKeyBytes;
}

Result<uint64_t> ThreadsTransport::unpack_key(Rank peer, std::span<const std::byte> packed) {
  uint64_t key = 0;
  if (packed.size() != kKeyBytes)
    return fail(ErrorCode::kInternal, "a key of {} bytes came from rank {}", packed.size(), peer);
  std::memcpy(&key, packed.data(), sizeof key);
  return key;
}

bool ThreadsTransport::put(Rank peer, const void* source, const MemoryKey& source_key,
                           RemoteAddress target, size_t bytes, uint64_t immediate) {
  if (bytes > 0 && !copy(peer, source, source_key, target, bytes)) return refuse(peer, bytes);
  return arrive(peer, bytes, immediate);
}

bool ThreadsTransport::put_segments(Rank peer, std::span<const PutSegment> segments,
                                    const MemoryKey& source_key, RemoteAddress target,
                                    uint64_t immediate) {
  if (segments.size() > max_put_segments()) return refuse(peer, segments[0].bytes);
  size_t bytes = 0;
  for (const PutSegment& segment : segments) {
    if (!copy(peer, segment.source, source_key, {target.address + bytes, target.key},
              segment.bytes))
      return refuse(peer, segment.bytes);
    bytes += segment.bytes;
  }
  if (segments.size() > 1) ++counters_.gathers;
  return arrive(peer, bytes, immediate);
}

bool ThreadsTransport::signal(Rank peer, uint32_t immediate) {
  return put(peer, nullptr, {}, {}, 0, immediate);
}

bool ThreadsTransport::mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) {
  if (bytes.size() > kMaxMailBytes) return refuse(peer, bytes.size());
  Message message{me_, 0, true, {bytes.begin(), bytes.end()}};
  return deliver(peer, std::move(message)) && count(peer, data_bytes);
}

size_t ThreadsTransport::poll(std::span<Arrival> arrivals) {
  Node& own = node(me_);
  const std::lock_guard lock(own.mutex);
  for (const Message& message : taken_)
    if (message.is_mail) --own.mails_of[message.from];
  taken_.clear();
  while (taken_.size() < arrivals.size() && !own.inbox.empty()) {
    taken_.push_back(std::move(own.inbox.front()));
    own.inbox.pop_front();
  }
  for (size_t i = 0; i < taken_.size(); ++i) {
    const Message& message = taken_[i];
    const auto kind = message.is_mail ? Arrival::Kind::kMail : Arrival::Kind::kSignal;
    arrivals[i] = {kind, message.from, message.immediate, message.bytes};
  }
  return taken_.size();
}

ThreadsTransport::ThreadsTransport(Bootstrap& bootstrap, std::span<Bell> bells,
                                   std::shared_ptr<std::vector<Node>> nodes)
    : bootstrap_(bootstrap),
      bells_(bells),
      me_(bootstrap.rank()),
      nodes_(std::move(nodes)),
      posted_(nodes_->size()) {}

bool ThreadsTransport::covers(Rank owner, uint64_t key, uint64_t address, size_t bytes) {
  const std::lock_guard lock(node(owner).mutex);
  const auto found = node(owner).regions.find(key);
  if (found == node(owner).regions.end()) return false;
  const Region& region = found->second;
  return address >= region.address && address + bytes <= region.address + region.bytes;
}

bool ThreadsTransport::copy(Rank peer, const void* source, const MemoryKey& key,
                            RemoteAddress target, size_t bytes) {
  if (!covers(me_, key.local, reinterpret_cast<uint64_t>(source), bytes) ||
      !covers(peer, target.key, target.address, bytes))
    return false;
  std::memcpy(reinterpret_cast<void*>(target.address), source, bytes);
  return true;
}

bool ThreadsTransport::arrive(Rank peer, size_t bytes, uint64_t immediate) {
  if (immediate != kNoSignal) deliver(peer, {me_, static_cast<uint32_t>(immediate), false, {}});
  return count(peer, bytes);
}

bool ThreadsTransport::deliver(Rank peer, Message message) {
  {
    const std::lock_guard lock(node(peer).mutex);
    if (message.is_mail && node(peer).mails_of[me_] == kMailsOfPeer) return false;
    if (message.is_mail) ++node(peer).mails_of[me_];
    node(peer).inbox.push_back(std::move(message));
  }
  ring(bells_[static_cast<size_t>(peer)]);
  return true;
}

bool ThreadsTransport::refuse(Rank peer, size_t bytes) {
  failure_ = Failure{me_, ErrorCode::kSystem,
                     fmt::format("rank {} may not send {} bytes so to rank {}", me_, bytes, peer)};
  return false;
}

bool ThreadsTransport::count(Rank peer, size_t bytes) {
  ++posted_[static_cast<size_t>(peer)];
  if (bytes == kUncounted) return true;
  ++(bytes > 0 ? counters_.data_messages : counters_.tokens);
  counters_.data_bytes += bytes;
  return true;
}

}  // namespace ibcoll::testing
