#pragma once
/// Peers of a server that do only what the test tells them.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "perf/support/empty_transports.h"

namespace ibcoll {

/// A server whose other ranks read nothing of what they are offered before they are told to.
class SlowLocal : public perf::EmptyLocal {
 public:
  struct Offered {
    Rank peer;
    size_t bytes;
  };
  std::vector<Offered> offered;
  std::vector<Rank> read, retracted;
  std::vector<uint32_t> tickets_read;  ///< beside all that those of `read` are offered
  std::vector<Rank> full;              ///< have no room for more
  std::vector<Rank> told;              ///< to whom mails went
  std::vector<std::vector<std::byte>> mails;

  Offer offer(Rank peer, const MessageKey&, const void*, size_t bytes, uint32_t& ticket) override {
    if (std::find(full.begin(), full.end(), peer) != full.end()) return Offer::kNoRoom;
    offered.push_back({peer, bytes});
    ticket = static_cast<uint32_t>(offered.size());  // from 1
    return Offer::kPending;
  }
  bool completed(Rank peer, uint32_t ticket) override {
    return std::find(read.begin(), read.end(), peer) != read.end() ||
           std::find(tickets_read.begin(), tickets_read.end(), ticket) != tickets_read.end();
  }
  bool retract(Rank peer, uint32_t) override {
    retracted.push_back(peer);
    return true;
  }
  Pull pull(Rank, const MessageKey&, void*, size_t, bool, size_t&) override {
    return Pull::kNotYet;
  }
  bool offer_mail(Rank peer, std::span<const std::byte>) override {
    told.push_back(peer);
    return true;
  }
  std::span<const std::byte> take_mail() override {
    if (mails.empty()) return {};
    taken_ = std::move(mails.front());
    mails.erase(mails.begin());
    return taken_;
  }
  size_t bytes_to(Rank peer) const {
    size_t sum = 0;
    for (const Offered& offer : offered) sum += offer.peer == peer ? offer.bytes : 0;
    return sum;
  }

 private:
  std::vector<std::byte> taken_;
};

}  // namespace ibcoll
