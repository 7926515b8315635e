#include "engine/planner/contention_free/emit_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "engine/planner/contention_free/plan_times.h"

namespace ibcoll::contention_free {

namespace {

/// How far back along a link's transfers the anchor of a token is looked for.
constexpr int kMostSteps = 256;

/// How many packets a token may meet and still be in time where it leaves its host, and as many
/// where it comes to the other one. Those that it meets between switches don't add up to more.
constexpr double kPacketsMet = 3;

/// A transfer's use of a link.
struct Use {
  int64_t begin;      ///< its first byte enters the link, as planned
  int64_t before_ns;  ///< after the transfer's start
  uint32_t transfer;
  uint32_t
      previous;  ///< use of the same link: whose units it takes over last; kNone for unused ones
};

/// Whole bytes that a transfer moves in a time: fewer, so that tokens are not too early.
uint64_t bytes_in(const Transfer& transfer, int64_t ns) {
  const double bytes = std::floor(static_cast<double>(ns) * transfer.rate * 1e-9);
  return std::min(transfer.bytes, static_cast<uint64_t>(std::max(bytes, 0.0)));
}

class Emitter {
 public:
  /// `shipments`: of each transfer.
  Emitter(const Problem& problem, const std::vector<uint32_t>& shipments, bool ahead, Plan& plan)
      : problem_(problem), shipments_(shipments), ahead_(ahead), plan_(plan) {
    for (const int host : problem.hosts) {
      const int up = problem.fabric.host_link(host);
      uplinks_.push_back(problem.fabric.link(up).bandwidth);
      downlinks_.push_back(problem.fabric.link(topology::Fabric::reverse(up)).bandwidth);
    }
  }

  void run() {
    list_uses();
    met_bytes_ = kPacketsMet * packet_bytes(plan_);
    last_token_.assign(plan_.transfers.size(), kNone);
    tokens_.reserve(uses_.size());
    for (int link = 0; link < problem_.fabric.links(); ++link) order_link(link);
    choose_tokens();
  }

  /// How far uses of the same slot overlap, at most, now that the plan has its final times.
  int64_t overlap_ns() const {
    int64_t most = 0;
    for (const Use& use : uses_) {
      if (use.previous == kNone) continue;
      const Use& previous = uses_[use.previous];
      const Transfer& a = plan_.transfers[previous.transfer];
      const Transfer& b = plan_.transfers[use.transfer];
      const int64_t gone = a.start_ns + previous.before_ns + durations_[previous.transfer];
      most = std::max(most, gone - (b.start_ns + use.before_ns));
    }
    return most;
  }

 private:
  void list_uses() {
    first_.assign(problem_.fabric.links() + 1, 0);
    Path path;
    for (size_t link = 0; link < problem_.links.size(); ++link) {
      first_[link + 1] = first_[link] + static_cast<size_t>(problem_.links[link].shipments);
    }
    uses_.resize(first_.back());
    shares_a_link_.assign(plan_.transfers.size(), 0);
    durations_.reserve(plan_.transfers.size());
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& transfer = plan_.transfers[i];
      durations_.push_back(duration_ns(transfer));
      for (const Hop& hop : problem_.route(shipments_[i], path)) {
        if (problem_.links[hop.link].slots > 1) shares_a_link_[i] = 1;
        uses_[next[hop.link]++] = {transfer.start_ns + hop.before_ns, hop.before_ns, i, kNone};
      }
    }
  }

  /// Units of a link that one transfer used last.
  struct Share {
    int64_t free_ns;
    uint32_t last;  ///< use
    int units;
  };

  /// Gives every use of a link units that earlier ones have left.
  void order_link(int link) {
    const auto begin = uses_.begin() + static_cast<ptrdiff_t>(first_[link]);
    const auto end = uses_.begin() + static_cast<ptrdiff_t>(first_[link + 1]);
    if (begin == end) return;
    // Tokens at full arrival must not wait in a cycle: they follow the order of starts.
    const auto earlier = [&](const Use& a, const Use& b) {
      return ahead_ ? std::pair(a.begin, a.transfer) < std::pair(b.begin, b.transfer)
                    : a.transfer < b.transfer;
    };
    if (!std::is_sorted(begin, end, earlier)) std::sort(begin, end, earlier);
    const LinkUse& use = problem_.links[link];
    shares_.assign(1, {INT64_MIN, kNone, use.units});
    plan_.groups += std::min<int64_t>(use.slots, end - begin);
    for (auto it = begin; it != end; ++it) {
      const Transfer& transfer = plan_.transfers[it->transfer];
      const auto index = static_cast<uint32_t>(it - uses_.begin());
      const int need = use.units_of(transfer.rate);
      int64_t latest = INT64_MIN;
      for (int left = need; left > 0;) {
        const size_t best = best_share(transfer.from, it->begin);
        Share& share = shares_[best];
        if (share.last != kNone) {
          if (share.free_ns > latest) {
            latest = share.free_ns;
            it->previous = share.last;
          }
          add_token(share.last, index);
        }
        const int taken = std::min(left, share.units);
        left -= taken;
        share.units -= taken;
        if (share.units > 0) continue;
        share = shares_.back();
        shares_.pop_back();
      }
      shares_.push_back({it->begin + durations_[it->transfer], index, need});
    }
  }

  /// Of the shares that are free by then one that the same server used last, which takes no token,
  /// else the one that has been free for longest.
  size_t best_share(int from, int64_t begin) const {
    size_t best = 0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i].last != kNone && shares_[i].free_ns <= begin &&
          plan_.transfers[uses_[shares_[i].last].transfer].from == from) {
        return i;
      }
      if (shares_[i].free_ns < shares_[best].free_ns) best = i;
    }
    return best;
  }

  /// A token without what all of its transfer have in common, and for how long it will be there
  /// before the transfer starts.
  struct Planned {
    uint32_t after, anchor;
    uint32_t previous;  ///< of the same transfer, in tokens_
    bool at_sender;
    bool waits;  ///< for ns after the moment; else it is so early
    uint64_t bytes_left;
    int64_t ns;
    int64_t slack_ns;
    int64_t early_ns() const { return waits ? 0 : ns; }
    int64_t wait_ns() const { return waits ? ns : 0; }
  };

  void add_token(uint32_t after_use, uint32_t before_use) {
    const uint32_t after = uses_[after_use].transfer, before = uses_[before_use].transfer;
    const Transfer& a = plan_.transfers[after];
    const Transfer& b = plan_.transfers[before];
    Planned planned{after, after, last_token_[before], a.from == b.from, false, 0, 0, 0};
    if (a.from == b.from) {
      planned.ns = b.start_ns - a.start_ns - durations_[after];
    } else if (ahead_) {
      find_moment(after_use, b, planned);
    }
    last_token_[before] = static_cast<uint32_t>(tokens_.size());
    tokens_.push_back(planned);
  }

  /// How long packets that a token may meet hold it up.
  int64_t slack_ns(int from, int to) const {
    return from == to ? 0
                      : std::llround(met_bytes_ * (1 / uplinks_[from] + 1 / downlinks_[to]) * 1e9);
  }

  /// The last moment, along the transfers that use the link one after the other, at which a token
  /// can be sent so that it is there when `before` is to start.
  void find_moment(uint32_t use, const Transfer& before, Planned& planned) const {
    for (int steps = 0; use != kNone && steps < kMostSteps; ++steps) {
      const Transfer& anchor = plan_.transfers[uses_[use].transfer];
      planned.anchor = uses_[use].transfer;
      const auto found = [&](bool at_sender, int64_t left_ns, int64_t slack_ns) {
        planned.at_sender = at_sender;
        planned.slack_ns = slack_ns;
        planned.bytes_left = bytes_in(anchor, left_ns);
        planned.waits = planned.anchor != planned.after;
        planned.ns = std::max<int64_t>(-left_ns, 0);
      };
      const int64_t to_receive = slack_ns(anchor.to, before.from);
      const int64_t to_send = slack_ns(anchor.from, before.from);
      const int64_t received =
          before.start_ns - problem_.latency_ns(anchor.to, before.from) - to_receive;
      const int64_t sent =
          before.start_ns - problem_.latency_ns(anchor.from, before.from) - to_send;
      const int64_t length = durations_[planned.anchor], gone = anchor.start_ns + length;
      // Where several share a wide link a sender that is the slowest link of the way keeps time
      // best: what its packets wait for others' on the way would add up from transfer to transfer.
      // Elsewhere the receiver does: it sees a link that is slower than the plan took it for.
      if (shares_a_link_[uses_[use].transfer] != 0 && sent >= anchor.start_ns && sent <= gone &&
          anchor.rate >= uplinks_[anchor.from] * (1 - 1e-9)) {
        return found(true, gone - sent, to_send);
      }
      if (received > anchor.end_ns - length) {
        return found(false, anchor.end_ns - received, to_receive);
      }
      if (sent >= anchor.start_ns) return found(true, gone - sent, to_send);
      use = uses_[use].previous;
    }
    planned.anchor = kNone;
    planned.at_sender = false;
    planned.waits = true;
    planned.ns = before.start_ns;
  }

  /// When a transfer has what it forwards, or begins to.
  int64_t fed_ns(uint32_t i, const std::vector<int64_t>& pieces) const {
    const Transfer& transfer = plan_.transfers[i];
    const size_t sum = Sums(plan_.collective, plan_.servers).awaited_by(transfer);
    if (sum != Sums::kNone) return pieces[sum];
    return transfer.forwards == kNone ? 0
                                      : first_piece_ns(plan_, plan_.transfers[transfer.forwards]);
  }

  /// Tokens by (before, after), one a pair: of several the latest. Where all are there early and
  /// nothing else holds the transfer back the latest waits, or the transfer would start before its
  /// time and others, told by the progress of what went before it, would meet it.
  void choose_tokens() {
    const auto key = [](const Planned& p) {
      return std::tuple(p.after, p.early_ns(), p.anchor == kNone, ~p.anchor, p.at_sender,
                        p.bytes_left);
    };
    plan_.tokens.clear();
    plan_.tokens.reserve(tokens_.size());
    const Sums sums(plan_.collective, plan_.servers);
    std::vector<int64_t> pieces(sums.count());  // by sum: the first pieces of all are there
    for (const Transfer& t : plan_.transfers) {
      const size_t sum = sums.fed_by(t);
      if (sum != Sums::kNone) pieces[sum] = std::max(pieces[sum], first_piece_ns(plan_, t));
    }
    std::vector<Planned> mine;
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      mine.clear();
      for (uint32_t t = last_token_[i]; t != kNone; t = tokens_[t].previous) {
        mine.push_back(tokens_[t]);
      }
      if (mine.empty()) continue;
      std::sort(mine.begin(), mine.end(),
                [&](const Planned& a, const Planned& b) { return key(a) < key(b); });
      const auto last = std::min_element(
          mine.begin(), mine.end(),
          [](const Planned& a, const Planned& b) { return a.early_ns() < b.early_ns(); });
      if (ahead_ && last->early_ns() > 0 && fed_ns(i, pieces) < plan_.transfers[i].start_ns) {
        last->waits = true;
      }
      for (size_t k = 0; k < mine.size(); ++k) {
        const Planned& p = mine[k];
        if (k > 0 && p.after == mine[k - 1].after) continue;
        plan_.tokens.push_back(
            {p.after, i, p.anchor, p.at_sender, p.bytes_left, p.wait_ns(), p.slack_ns});
      }
    }
  }

  const Problem& problem_;
  const std::vector<uint32_t>& shipments_;
  const bool ahead_;
  Plan& plan_;
  double met_bytes_ = 0;                     ///< of the packets that a token may meet
  std::vector<double> uplinks_, downlinks_;  ///< bandwidth by which each server sends, receives
  std::vector<size_t> first_;                ///< of uses_, by link
  std::vector<Use> uses_;
  std::vector<int64_t> durations_;   ///< by transfer
  std::vector<char> shares_a_link_;  ///< by transfer: some link of its way carries several at once
  std::vector<Share> shares_;        ///< of the link in hand
  std::vector<Planned> tokens_;
  std::vector<uint32_t> last_token_;  ///< by transfer that waits, in tokens_
};

}  // namespace

Plan emit_plan(const Problem& problem, const Timing& timing, bool ahead) {
  Plan plan;
  plan.collective = problem.inputs.collective;
  plan.servers = problem.servers;
  plan.root = problem.inputs.root;
  plan.piece_bytes = problem.piece_bytes;
  plan.parts = problem.parts;
  plan.tokens_ahead = ahead;
  std::vector<uint32_t> order(problem.shipments.size()), place(problem.shipments.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const Shipment &x = problem.shipments[a], &y = problem.shipments[b];
    return std::tuple(timing.start_ns[a], x.from, x.to, a) <
           std::tuple(timing.start_ns[b], y.from, y.to, b);
  });
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  plan.transfers.reserve(order.size());
  for (const uint32_t index : order) {
    const Shipment& shipment = problem.shipments[index];
    const int64_t start = timing.start_ns[index];
    plan.transfers.push_back(
        {shipment.from, shipment.to, shipment.origin, shipment.target, shipment.bytes, start,
         start + shipment.latency_ns + shipment.duration_ns, shipment.rate,
         shipment.forwards == kNone ? kNone : place[shipment.forwards], shipment.part});
    if (shipment.forwards != kNone && shipment.origin != kEveryone &&
        shipment.target != kEveryone) {
      plan.relayed_bytes += shipment.bytes;
    }
  }
  Emitter emitter(problem, order, ahead, plan);
  emitter.run();
  retime(problem, plan);
  plan.jitter_ns = std::max<int64_t>(0, emitter.overlap_ns());
  sort_plan(plan);
  plan.relay_buffer_bytes = relay_buffer_bytes(plan);
  return plan;
}

}  // namespace ibcoll::contention_free
