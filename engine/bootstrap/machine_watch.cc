#include "engine/bootstrap/machine_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/base/log.h"

namespace ibcoll {

MachineWatch::MachineWatch(const Bootstrap& bootstrap, std::span<const WatchedProcess> processes)
    : bootstrap_(&bootstrap) {
  const pid_t me = getpid();
  for (const WatchedProcess& peer : processes) {
    if (peer.pid == me) continue;
    peers_.push_back(peer);
    if (!bootstrap.is_watched(peer.rank)) unwatched_.push_back(peer);
  }
}

PeerWatch* MachineWatch::own_watch() {
  if (own_ && of_all_) return &*own_;
  (void)bootstrap_->failure();  // looks whether whoever watches this machine is still there
  const bool all = !bootstrap_->is_watched(bootstrap_->rank());
  if (own_ && !all) return &*own_;
  const std::vector<WatchedProcess>& processes = all ? peers_ : unwatched_;
  if (failed_ || processes.empty()) return nullptr;
  Result<PeerWatch> watch = PeerWatch::create(processes);
  if (!watch) {
    failed_ = true;
    log().warn("deaths of other ranks will not be noticed: {}", watch.error().message);
    return nullptr;
  }
  own_ = std::move(*watch);
  of_all_ = all;
  for (const Rank rank : forgotten_) own_->forget(rank);
  return &*own_;
}

std::optional<Rank> MachineWatch::find_dead() {
  if (bootstrap_ == nullptr) return std::nullopt;
  const uint32_t noted = bootstrap_->ends_noted();
  if (noted != looked_) {
    for (const WatchedProcess& peer : peers_) {
      const bool known =
          std::find(forgotten_.begin(), forgotten_.end(), peer.rank) != forgotten_.end();
      if (!known && bootstrap_->end_of(peer.rank)) return peer.rank;
    }
    looked_ = noted;
  }
  PeerWatch* const own = own_watch();
  return own != nullptr ? own->find_dead() : std::nullopt;
}

bool MachineWatch::has_ended(Rank rank, int wait_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (true) {
    if (bootstrap_ == nullptr) return false;
    if (bootstrap_->end_of(rank)) return true;
    if (const PeerWatch* const own = own_watch(); own != nullptr && own->has_ended(rank))
      return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MachineWatch::forget(Rank rank) {
  forgotten_.push_back(rank);
  if (own_) own_->forget(rank);
}

}  // namespace ibcoll
