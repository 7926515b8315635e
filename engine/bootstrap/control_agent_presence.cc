// Which ranks have left or are leaving, told to the machines where others may wait for them.

#include <algorithm>
#include <cstring>

#include "engine/bootstrap/control_agent.h"

namespace ibcoll {
namespace {

/// All ranks leave at about the same time at a job's end: who only waits for that is not told.
constexpr auto kTellAfter = std::chrono::milliseconds(300);
/// After a death they leave alone, and who goes on must not take them for dead.
constexpr auto kTellSoon = std::chrono::milliseconds(20);

struct Change {
  int32_t rank;
  int32_t presence;
};

void append(std::vector<std::byte>& payload, Rank rank, Presence presence) {
  const Change change{rank, static_cast<int32_t>(presence)};
  const auto* bytes = reinterpret_cast<const std::byte*>(&change);
  payload.insert(payload.end(), bytes, bytes + sizeof change);
}

}  // namespace

/// What this machine's ranks have said since the last time.
void ControlAgent::note_presence() {
  if (block_.ranks() == block_.job_size()) return;
  for (const Rank rank : block_.job_ranks()) {
    const Presence now = block_.presence(rank);
    const auto told = told_.find(rank);
    if (now == (told == told_.end() ? Presence::kHere : told->second))
      to_tell_.erase(rank);
    else
      to_tell_[rank] = now;
  }
  if (to_tell_.empty())
    tell_at_.reset();
  else if (!tell_at_)
    tell_at_ = Clock::now() + (has_outlived() ? kTellSoon : kTellAfter);
}

void ControlAgent::tell_presence() {
  if (!tell_at_ || goodbye_until_ || sought_since_ || Clock::now() < *tell_at_) return;
  tell_at_.reset();
  auto payload = std::make_shared<std::vector<std::byte>>();
  for (const auto& [rank, presence] : to_tell_) {
    append(*payload, rank, presence);
    told_[rank] = presence;
  }
  to_tell_.clear();
  if (!is_root_ && !root_gone_)
    connections_.root.send(FrameKind::kPresence, me_, ControlConnection::Payload(payload));
  for (auto& [rank, connection] : connections_.machines)
    connection.send(FrameKind::kPresence, me_, payload);
}

/// Root: what others have been told before.
void ControlAgent::tell_all_presences(ControlConnection& machine) const {
  auto payload = std::make_shared<std::vector<std::byte>>();
  for (Rank rank = 0; rank < block_.job_size(); ++rank)
    if (const Presence now = block_.presence(rank); now != Presence::kHere)
      append(*payload, rank, now);
  if (!payload->empty())
    machine.send(FrameKind::kPresence, me_, ControlConnection::Payload(std::move(payload)));
}

/// Rank 0 passes it on; its own word about machines goes to all alike, also to those it concerns.
void ControlAgent::hear_presence(const Frame& frame, Rank peer) {
  const auto& here = block_.job_ranks();
  for (size_t at = 0; at + sizeof(Change) <= frame.payload.size(); at += sizeof(Change)) {
    Change change{};
    std::memcpy(&change, frame.payload.data() + at, sizeof change);
    const bool known = change.rank >= 0 && change.rank < block_.job_size() &&
                       change.presence >= 0 &&
                       change.presence <= static_cast<int32_t>(Presence::kUnreachable);
    if (change.rank == me_ && change.presence == static_cast<int32_t>(Presence::kGone))
      heard_of_goodbye_ = true;
    if (!known || std::binary_search(here.begin(), here.end(), change.rank)) continue;
    if (is_root_ && connections_.leader_of[static_cast<size_t>(change.rank)] != peer) continue;
    const auto presence = static_cast<Presence>(change.presence);
    block_.set_presence(change.rank, presence);
    if (!is_root_) continue;
    to_tell_[change.rank] = presence;
    tell_at_ = Clock::now();
  }
}

}  // namespace ibcoll
