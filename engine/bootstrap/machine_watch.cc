#include "engine/bootstrap/machine_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "engine/base/log.h"

namespace ibcoll {

MachineWatch::MachineWatch(const Bootstrap& bootstrap, std::span<const WatchedProcess> processes)
    : bootstrap_(&bootstrap) {
  const pid_t me = getpid();
  for (const WatchedProcess& peer : processes) {
    if (peer.pid != me) peers_.push_back(peer);
  }
}

PeerWatch* MachineWatch::own_watch() {
  if (own_ && of_all_) return &*own_;
  (void)bootstrap_->failure();  // looks whether whoever watches this machine is still there
  const bool all = !bootstrap_->is_watched(bootstrap_->rank());
  const auto is_ours = [&](const WatchedProcess& peer) {
    return all || !bootstrap_->is_watched(peer.rank);
  };
  if (failed_ || std::none_of(peers_.begin(), peers_.end(), is_ours)) return nullptr;
  if (own_ && !all) return &*own_;
  std::vector<WatchedProcess> processes;
  std::copy_if(peers_.begin(), peers_.end(), std::back_inserter(processes), is_ours);
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
    for (const Rank rank : bootstrap_->ended())
      if (std::find(forgotten_.begin(), forgotten_.end(), rank) == forgotten_.end()) return rank;
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
