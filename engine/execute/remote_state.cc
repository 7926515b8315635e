#include "engine/execute/remote_state.h"

namespace ibcoll {

Forwarding& Forwardings::add() {
  if (count == items.size()) items.emplace_back();
  items[count].next_local = 0;
  return items[count++];
}

void RemoteState::keep(Rank from, std::span<const std::byte> data) {
  mailed.push_back({mailed_data.size(), data.size()});
  peers[from].mailed.push(mailed, static_cast<uint32_t>(mailed.size() - 1));
  mailed_data.insert(mailed_data.end(), data.begin(), data.end());
}

}  // namespace ibcoll
