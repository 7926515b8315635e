#include "engine/planner/contention_free/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "engine/planner/contention_free/check_deliveries.h"
#include "engine/planner/contention_free/check_links.h"

namespace ibcoll::contention_free {

namespace {

/// Planned times are rounded to nanoseconds, some of them twice.
constexpr int64_t kRoundingNs = 16;

class Checker {
 public:
  Checker(const PlanInputs& inputs, const Plan& plan)
      : inputs_(inputs),
        plan_(plan),
        fabric_(*inputs.fabric),
        sums_(inputs.collective, static_cast<int>(inputs.server_ranks.size())) {}

  Status run() {
    IBCOLL_TRY(check_head());
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) IBCOLL_TRY(check_transfer(i));
    IBCOLL_TRY(check_deliveries(inputs_, plan_));
    IBCOLL_TRY(check_tokens());
    feeders_.resize(sums_.count());
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const size_t sum = sums_.fed_by(plan_.transfers[i]);
      if (sum != Sums::kNone) feeders_[sum].push_back(i);
    }
    IBCOLL_TRY(check_waits());
    std::vector<LinkWindow> windows;
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      int64_t enters = t.start_ns;
      fabric_.visit_route(host(t.from), host(t.to), [&](int link) {
        windows.push_back({link, i, enters, enters + length_ns(t)});
        enters += fabric_.link(link).latency_ns + fabric_.switch_latency_ns();
      });
    }
    exempt_.assign(fabric_.links(), 0);
    if (!plan_.tokens_ahead) find_small(windows);
    IBCOLL_TRY(check_times(windows));
    if (plan_.tokens_ahead) {
      IBCOLL_TRY(check_link_times(fabric_, plan_, std::move(windows)));
    } else {
      IBCOLL_TRY(check_link_orders(fabric_, plan_, std::move(windows), exempt_));
    }
    return check_buffers();
  }

 private:
  int host(int server) const { return inputs_.hosts.empty() ? server : inputs_.hosts[server]; }
  static int64_t length_ns(const Transfer& t) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(t.bytes) / t.rate * 1e9 - 1e-6));
  }
  int64_t latency_ns(int from, int to) const {
    return fabric_.route_latency_ns(host(from), host(to));
  }
  template <class... Args>
  tl::unexpected<Error> wrong(uint32_t i, fmt::format_string<Args...> format,
                              Args&&... args) const {
    return fail(ErrorCode::kInvalidProgram, "{}: {}", name_transfer(plan_, i),
                fmt::format(format, std::forward<Args>(args)...));
  }

  Status check_head() const {
    if (plan_.collective != inputs_.collective || plan_.root != inputs_.root ||
        plan_.servers != static_cast<int>(inputs_.server_ranks.size())) {
      return fail(ErrorCode::kInvalidProgram,
                  "the plan is a {} of {} servers to or from {}; asked was a {} of {}, {}",
                  to_string(plan_.collective), plan_.servers, plan_.root,
                  to_string(inputs_.collective), inputs_.server_ranks.size(), inputs_.root);
    }
    if (plan_.parts < 1 || plan_.parts > most_parts(inputs_)) {
      return fail(ErrorCode::kInvalidProgram, "messages of {} in {} parts: 1 to {} were asked for",
                  to_string(plan_.collective), plan_.parts, most_parts(inputs_));
    }
    if (plan_.piece_bytes == 0) return fail(ErrorCode::kInvalidProgram, "pieces of 0 bytes");
    if (plan_.jitter_ns < 0 || plan_.jitter_ns > std::max<int64_t>(1000, plan_.time_ns / 100)) {
      return fail(ErrorCode::kInvalidProgram, "a jitter of {} ns in a plan of {} ns",
                  plan_.jitter_ns, plan_.time_ns);
    }
    if (plan_.time_ns < plan_.bound_ns) {
      return fail(ErrorCode::kInvalidProgram, "a time of {} ns is below the bound of {} ns",
                  plan_.time_ns, plan_.bound_ns);
    }
    return {};
  }

  Status check_transfer(uint32_t i) const {
    const Transfer& t = plan_.transfers[i];
    for (const int server : {t.from, t.to}) {
      if (server < 0 || server >= plan_.servers) return wrong(i, "there is no server {}", server);
    }
    if (t.from == t.to) return wrong(i, "a server sends to itself");
    const uint64_t bytes = asked_bytes(inputs_, t.origin, t.target);
    if (bytes == 0) return wrong(i, "there is no such message");
    if (t.part < 0 || t.part >= plan_.parts) {
      return wrong(i, "part {} of {}", t.part, plan_.parts);
    }
    const uint64_t own = part_bytes(bytes, plan_.parts, t.part);
    if (t.bytes != own) return wrong(i, "{} of {} bytes", t.bytes, own);
    if (inputs_.permitted) {
      const auto& pairs = *inputs_.permitted;
      const bool found = std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
        return std::minmax(pair.first, pair.second) == std::minmax<int>(t.from, t.to);
      });
      if (!found) return wrong(i, "the pair is not permitted");
    }
    const double most = fabric_.route_bandwidth(host(t.from), host(t.to));
    if (!(t.rate > 0) || t.rate > most * (1 + 1e-9)) {
      return wrong(i, "a rate of {} B/s on a route of {} B/s", t.rate, most);
    }
    if (t.start_ns < 0) return wrong(i, "starts at {} ns", t.start_ns);
    const int64_t end = t.start_ns + latency_ns(t.from, t.to) + length_ns(t);
    if (std::abs(t.end_ns - end) > kRoundingNs) {
      return wrong(i, "ends at {} ns: at this rate it takes until {} ns", t.end_ns, end);
    }
    if (i == 0) return {};
    const Transfer& last = plan_.transfers[i - 1];
    if (std::tuple(last.start_ns, last.from, last.to) > std::tuple(t.start_ns, t.from, t.to)) {
      return wrong(i, "stands behind one that starts later");
    }
    return {};
  }

  Status check_tokens() const {
    const auto count = static_cast<uint32_t>(plan_.transfers.size());
    for (size_t i = 0; i < plan_.tokens.size(); ++i) {
      const Token& t = plan_.tokens[i];
      const auto bad = [&](const char* why) {
        return fail(ErrorCode::kInvalidProgram, "token {} (after transfer {}, before {}): {}", i,
                    t.after, t.before, why);
      };
      if (t.after >= count || t.before >= count || (t.anchor >= count && t.anchor != kNone)) {
        return bad("there is no such transfer");
      }
      if (t.after == t.before || t.anchor == t.before) return bad("a transfer waits for itself");
      if (t.anchor != kNone && t.bytes_left > plan_.transfers[t.anchor].bytes) {
        return bad("more bytes left than its anchor has");
      }
      if (t.wait_ns < 0 || t.slack_ns < 0) return bad("a wait below 0");
      const bool same = plan_.transfers[t.after].from == plan_.transfers[t.before].from;
      if (!plan_.tokens_ahead && (t.anchor != t.after || t.bytes_left != 0 || t.wait_ns != 0 ||
                                  t.slack_ns != 0 || (t.at_sender && !same))) {
        return bad("sent ahead in a plan without such tokens");
      }
      if (i > 0 && std::pair(plan_.tokens[i - 1].before, plan_.tokens[i - 1].after) >=
                       std::pair(t.before, t.after)) {
        return bad("stands out of order");
      }
    }
    return {};
  }

  /// Calls `visit(transfer)` for all that `i` waits for.
  template <class Visit>
  void visit_waits(uint32_t i, Visit&& visit) const {
    const auto begin = std::partition_point(plan_.tokens.begin(), plan_.tokens.end(),
                                            [&](const Token& t) { return t.before < i; });
    for (auto it = begin; it != plan_.tokens.end() && it->before == i; ++it) {
      if (it->anchor != kNone) visit(it->anchor);
    }
    visit_feeders(plan_.transfers[i], visit);
  }
  /// Calls `visit(transfer)` for all that bring what `t` passes on.
  template <class Visit>
  void visit_feeders(const Transfer& t, Visit&& visit) const {
    if (const size_t sum = sums_.awaited_by(t); sum != Sums::kNone) {
      for (const uint32_t j : feeders_[sum]) visit(j);
    } else if (t.forwards != kNone) {
      visit(t.forwards);
    }
  }

  /// Kahn's algorithm: some order has all waits point back.
  Status check_waits() {
    const auto count = static_cast<uint32_t>(plan_.transfers.size());
    std::vector<uint32_t> waits(count, 0), first(count + 1, 0);
    for (uint32_t i = 0; i < count; ++i) {
      visit_waits(i, [&](uint32_t j) {
        ++waits[i];
        ++first[j + 1];
      });
    }
    for (uint32_t i = 0; i < count; ++i) first[i + 1] += first[i];
    std::vector<uint32_t> next(first.begin(), first.end() - 1), followers(first.back());
    for (uint32_t i = 0; i < count; ++i) {
      visit_waits(i, [&](uint32_t j) { followers[next[j]++] = i; });
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (waits[i] == 0) order_.push_back(i);
    }
    for (size_t at = 0; at < order_.size(); ++at) {
      for (uint32_t k = first[order_[at]]; k < first[order_[at] + 1]; ++k) {
        if (--waits[followers[k]] == 0) order_.push_back(followers[k]);
      }
    }
    if (order_.size() == count) return {};
    for (uint32_t i = 0; i < count; ++i) {
      if (waits[i] > 0) return wrong(i, "waits in a cycle");
    }
    return {};
  }

  /// Links whose transfers need no order, all together being less than what is under way on it.
  void find_small(const std::vector<LinkWindow>& windows) {
    std::vector<double> bytes(fabric_.links(), 0);
    for (const LinkWindow& w : windows) {
      bytes[w.link] += static_cast<double>(plan_.transfers[w.transfer].bytes);
    }
    for (int link = 0; link < fabric_.links(); ++link) {
      const topology::Link& l = fabric_.link(link);
      exempt_[link] = bytes[link] < l.bandwidth * 1e-9 * static_cast<double>(l.latency_ns) ? 1 : 0;
    }
  }

  /// Each transfer starts when all that it waits for is there.
  Status check_times(const std::vector<LinkWindow>& windows) const {
    int64_t time = 0;
    for (const uint32_t i : order_) {
      const Transfer& t = plan_.transfers[i];
      int64_t start = 0;
      const auto begin = std::partition_point(plan_.tokens.begin(), plan_.tokens.end(),
                                              [&](const Token& token) { return token.before < i; });
      for (auto it = begin; it != plan_.tokens.end() && it->before == i; ++it) {
        start = std::max(start, token_arrival_ns(*it));
      }
      if (t.forwards != kNone) {
        visit_feeders(t, [&](uint32_t j) {
          const Transfer& source = plan_.transfers[j];
          Transfer piece = source;
          piece.bytes = std::min(source.bytes, plan_.piece_bytes);
          start = std::max(start, source.end_ns - length_ns(source) + length_ns(piece));
        });
        const Transfer& source = plan_.transfers[t.forwards];
        const bool in_pieces = source.bytes > plan_.piece_bytes;
        if (in_pieces && t.rate > source.rate * (1 + 1e-9)) {
          return wrong(i, "goes faster than what it forwards");
        }
      }
      time = std::max(time, t.end_ns);
      if (t.start_ns < start - kRoundingNs) {
        return wrong(i, "starts at {} ns, before what it waits for at {} ns", t.start_ns, start);
      }
      if (t.start_ns > start + kRoundingNs && !queues(i, windows)) {
        return wrong(i, "is planned for {} ns, but its tokens let it start at {} ns", t.start_ns,
                     start);
      }
    }
    if (time == plan_.time_ns) return {};
    return fail(ErrorCode::kInvalidProgram, "the plan says {} ns, its last transfer ends at {} ns",
                plan_.time_ns, time);
  }

  /// Whether a transfer comes to a link that needs no order just when another leaves it.
  bool queues(uint32_t i, const std::vector<LinkWindow>& windows) const {
    for (const LinkWindow& own : windows) {
      if (own.transfer != i || exempt_[own.link] == 0) continue;
      for (const LinkWindow& other : windows) {
        if (other.link == own.link && other.transfer != i &&
            std::abs(other.end_ns - own.begin_ns) <= kRoundingNs) {
          return true;
        }
      }
    }
    return false;
  }

  int64_t token_arrival_ns(const Token& token) const {
    if (token.anchor == kNone) return token.wait_ns;
    const Transfer& anchor = plan_.transfers[token.anchor];
    Transfer rest = anchor;
    rest.bytes = token.bytes_left;
    const int64_t gone = token.at_sender ? anchor.start_ns + length_ns(anchor) : anchor.end_ns;
    const int from = token.at_sender ? anchor.from : anchor.to;
    return gone - length_ns(rest) + token.wait_ns +
           latency_ns(from, plan_.transfers[token.before].from) + token.slack_ns;
  }

  /// What each server holds at once for others, from first arrival to last departure.
  Status check_buffers() const {
    if (spreads(plan_.collective)) return {};
    std::map<int, std::map<int64_t, int64_t>> changes;
    for (const Transfer& t : plan_.transfers) {
      if (t.forwards == kNone) continue;
      const Transfer& arrival = plan_.transfers[t.forwards];
      const auto bytes = static_cast<int64_t>(t.bytes);
      changes[t.from][arrival.end_ns - length_ns(arrival)] += bytes;
      changes[t.from][t.start_ns + length_ns(t)] -= bytes;
    }
    for (const auto& [server, times] : changes) {
      int64_t held = 0;
      for (const auto& [time, change] : times) {
        held += change;
        if (held <= static_cast<int64_t>(plan_.relay_buffer_bytes)) continue;
        return fail(ErrorCode::kInvalidProgram,
                    "server {} relays {} bytes at {} ns: the plan says {} at most", server, held,
                    time, plan_.relay_buffer_bytes);
      }
    }
    return {};
  }

  const PlanInputs& inputs_;
  const Plan& plan_;
  const topology::Fabric& fabric_;
  const Sums sums_;
  std::vector<std::vector<uint32_t>> feeders_;  ///< by sum
  std::vector<uint32_t> order_;                 ///< transfers, each after all it waits for
  std::vector<char> exempt_;                    ///< links that need no order
};

}  // namespace

std::string name_transfer(const Plan& plan, uint32_t i) {
  const Transfer& t = plan.transfers[i];
  const auto side = [](int server) {
    return server == kEveryone ? std::string("all") : std::to_string(server);
  };
  return fmt::format("transfer {} ({} -> {}, message {} -> {}, at {} ns)", i, t.from, t.to,
                     side(t.origin), side(t.target), t.start_ns);
}

Status check_plan(const PlanInputs& inputs, const Plan& plan) {
  if (inputs.fabric == nullptr) return fail(ErrorCode::kInvalidArgument, "no network given");
  return Checker(inputs, plan).run();
}

}  // namespace ibcoll::contention_free
