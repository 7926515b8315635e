#include "engine/execute/call_memory.h"

#include "engine/base/message_store.h"
#include "engine/execute/mail.h"
#include "engine/execute/peer_states.h"
#include "engine/execute/posted_call.h"
#include "engine/execute/regions.h"

namespace ibcoll {

MemoryItems call_memory(const CallLoad& load) {
  MemoryItems items{{.part = MemoryPart::kCalls,
                     .what = "state of a call",
                     .bytes = sizeof(PostedCall) + load.arrivals * sizeof(uint32_t)},
                    {.part = MemoryPart::kCalls,
                     .what = "peers of a call",
                     .bytes = PeerStates::bytes_for(load.peers)}};
  if (load.unpacked > 0) {
    items.push_back(
        {.part = MemoryPart::kCalls, .what = "pages of packed programs", .bytes = load.unpacked});
  }
  if (load.eager) {
    items.push_back({.part = MemoryPart::kCalls,
                     .what = "messages that came with their data",
                     .bytes = grown(load.arrivals) * sizeof(MailedPut) + grown(load.bytes)});
    // Peers need this rank's data to end a call, so they are one call ahead at most.
    if (load.arrivals > 0) {
      const uint64_t each = sizeof(MailHeader) + load.bytes / load.arrivals;
      items.push_back({.part = MemoryPart::kCalls,
                       .what = "those of the next call, which come early",
                       .bytes = MessageStore::bytes_for(load.arrivals, each)});
    }
    return items;
  }
  items.push_back({.part = MemoryPart::kCalls,
                   .what = "puts under way",
                   .bytes = grown(load.puts) * sizeof(PendingPut)});
  items.push_back({.part = MemoryPart::kCalls,
                   .what = "exposures to be passed on",
                   .bytes = grown(load.exposures) * (sizeof(Forwarding) + exposure_mail_bytes(2))});
  items.push_back({.part = MemoryPart::kTables,
                   .what = "keys of peers' buffers",
                   .bytes = 2 * load.peers * PeerRegions::bytes_each()});
  return items;
}

}  // namespace ibcoll
