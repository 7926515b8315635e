#include "engine/planner/contention_free/program_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace ibcoll::contention_free {

namespace {

using Orders = std::vector<TransferPlan::Token>;

/// The transfers in the order of their starts, none before one that it comes after: transfers that
/// start together need not stand in that order in the plan.
std::vector<uint32_t> order_of(const Plan& plan, const Orders& orders) {
  const auto count = static_cast<uint32_t>(plan.transfers.size());
  std::vector<std::vector<uint32_t>> followers(count);
  std::vector<uint32_t> waits(count);
  const auto follows = [&](uint32_t after, uint32_t before) {
    followers[after].push_back(before);
    ++waits[before];
  };
  for (const TransferPlan::Token& order : orders) follows(order.after, order.before);
  const Sums sums(plan.collective, plan.servers);
  std::vector<std::vector<uint32_t>> into(sums.count());
  for (uint32_t i = 0; i < count; ++i) {
    const size_t sum = sums.fed_by(plan.transfers[i]);
    if (sum != Sums::kNone) into[sum].push_back(i);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const Transfer& transfer = plan.transfers[i];
    if (const size_t sum = sums.awaited_by(transfer); sum != Sums::kNone) {
      for (const uint32_t source : into[sum]) follows(source, i);
    } else if (transfer.forwards != Transfer::kNone) {
      follows(transfer.forwards, i);
    }
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free;
  for (uint32_t i = 0; i < count; ++i) {
    if (waits[i] == 0) free.push(i);
  }
  std::vector<uint32_t> order;
  while (!free.empty()) {
    order.push_back(free.top());
    free.pop();
    for (const uint32_t next : followers[order.back()]) {
      if (--waits[next] == 0) free.push(next);
    }
  }
  return order;
}

using Links = std::vector<int>;

Links common(const Links& sorted, Links links) {
  Links both;
  std::sort(links.begin(), links.end());
  std::set_intersection(sorted.begin(), sorted.end(), links.begin(), links.end(),
                        std::back_inserter(both));
  return both;
}

/// Of a plan whose tokens are sent at full arrival. What one server sends one after the other needs
/// no token, and is all there only together: whoever waits for the last on a link waits for those
/// before it on that link as well.
Orders arrivals(const Plan& plan, const topology::Fabric& fabric, std::span<const int> hosts) {
  const auto links = [&](uint32_t i) {
    const Transfer& transfer = plan.transfers[i];
    const auto host = [&](int server) { return hosts.empty() ? server : hosts[server]; };
    return fabric.route(host(transfer.from), host(transfer.to));
  };
  const auto same_server = [&](const Token& token) {
    return plan.transfers[token.after].from == plan.transfers[token.before].from;
  };
  std::vector<std::vector<uint32_t>> earlier(plan.transfers.size());  // of the same server
  for (const Token& token : plan.tokens) {
    if (same_server(token)) earlier[token.before].push_back(token.after);
  }
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const Token& token : plan.tokens) {
    if (same_server(token)) continue;
    pairs.emplace(token.after, token.before);
    Links way = links(token.before);
    std::sort(way.begin(), way.end());
    std::vector<std::pair<uint32_t, Links>> open = {{token.after, common(way, links(token.after))}};
    while (!open.empty()) {
      const auto [last, shared] = std::move(open.back());
      open.pop_back();
      for (const uint32_t before : earlier[last]) {
        Links still = common(shared, links(before));
        if (still.empty() || !pairs.emplace(before, token.before).second) continue;
        open.emplace_back(before, std::move(still));
      }
    }
  }
  // Chains through transfers that pass elsewhere prove nothing where one server's are not all there
  // in order: on links that carry one at a time each waits for the one before it as well.
  std::vector<std::vector<uint32_t>> over(fabric.links());
  for (uint32_t i = 0; i < plan.transfers.size(); ++i) {
    for (const int link : links(i)) over[link].push_back(i);
  }
  for (int link = 0; link < fabric.links(); ++link) {
    const double bandwidth = fabric.link(link).bandwidth;
    const bool one_at_a_time = std::all_of(over[link].begin(), over[link].end(), [&](uint32_t i) {
      return 2 * plan.transfers[i].rate > bandwidth;
    });
    for (size_t k = 1; k < over[link].size() && one_at_a_time; ++k) {
      const uint32_t before = over[link][k];
      int server = -1;  // the last other one to have the link, and all that it sends in a row
      for (size_t j = k; j-- > 0;) {
        const uint32_t after = over[link][j];
        const int from = plan.transfers[after].from;
        if (server < 0 && from == plan.transfers[before].from) continue;
        if (server >= 0 && from != server) break;
        server = from;
        pairs.emplace(after, before);
      }
    }
  }
  Orders orders;
  for (const auto& [after, before] : pairs) orders.push_back({after, before, 0});
  return orders;
}

/// A token may be so late, in parts of its transfer's time, before pieces are cut or it goes out
/// early.
constexpr double kLate = 1.0 / 128;
/// And so early, on average, without being cut into more.
constexpr double kEarly = 1.0 / 32;
/// How many transfers are looked at for one that a token can go out with.
constexpr size_t kMostLookedAt = 64;

/// Of a plan whose tokens are sent ahead.
class Moments {
 public:
  Moments(const Plan& plan, const topology::Fabric& fabric, std::span<const int> hosts,
          uint32_t most_pieces)
      : plan_(plan), fabric_(fabric), hosts_(hosts), first_(plan.transfers.size() + 1) {
    for (const Token& token : plan.tokens) ++first_[token.before + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    // Blocks that all servers have for all are many: they are not cut.
    const bool many = spreads(plan.collective) && !has_root(plan.collective);
    if (most_pieces > 1 && !many) cut(most_pieces);
  }

  uint32_t pieces() const { return pieces_; }
  uint32_t last_part() const { return last_part_; }

  Orders orders() {
    Orders all;
    for (const Token& token : plan_.tokens) {
      if (crosses(token)) find_moment(token, all);
    }
    const auto key = [](const TransferPlan::Token& t) {
      return std::tuple(t.after, t.before, t.left);
    };
    std::sort(all.begin(), all.end(),
              [&](const auto& a, const auto& b) { return key(a) < key(b); });
    // Of several for one pair the latest.
    all.erase(std::unique(all.begin(), all.end(),
                          [](const auto& a, const auto& b) {
                            return a.after == b.after && a.before == b.before;
                          }),
              all.end());
    return all;
  }

 private:
  /// Whether somebody has to be told.
  bool crosses(const Token& token) const {
    return token.anchor != Token::kNone &&
           plan_.transfers[token.after].from != plan_.transfers[token.before].from;
  }
  int64_t latency_ns(int from, int to) const {
    if (from == to) return 0;
    return hosts_.empty() ? fabric_.route_latency_ns(from, to)
                          : fabric_.route_latency_ns(hosts_[from], hosts_[to]);
  }
  static double duration_ns(const Transfer& of) {
    return static_cast<double>(of.bytes) / of.rate * 1e9;
  }
  /// How much of `anchor` is still to come when its receiver must send the token.
  double part_left(const Transfer& anchor, const Transfer& before) const {
    const int64_t sent_ns = before.start_ns - latency_ns(anchor.to, before.from);
    return static_cast<double>(anchor.end_ns - sent_ns) / duration_ns(anchor);
  }

  /// In two, where what is left when tokens have to go is nearly the same for all; else in the
  /// fewest pieces alike that let tokens go out at the end of one and not much too early.
  void cut(uint32_t most) {
    constexpr size_t kBins = 256;
    std::array<int64_t, kBins> count{};  // of tokens, by the part that is left
    double all = 0, sum = 0, largest = 0;
    for (const Token& token : plan_.tokens) {
      if (!crosses(token)) continue;
      const double part = part_left(plan_.transfers[token.after], plan_.transfers[token.before]);
      if (part <= kLate || part >= 1) continue;
      ++count[static_cast<size_t>(part * kBins)];
      all += 1;
      sum += part;
      largest = std::max(largest, part);
    }
    if (all == 0) return;
    const bool passed_on =
        std::any_of(plan_.transfers.begin(), plan_.transfers.end(),
                    [](const Transfer& t) { return t.forwards != Transfer::kNone; });
    if (!passed_on && largest - sum / all <= kEarly) {
      pieces_ = 2;
      last_part_ = static_cast<uint32_t>(std::ceil(largest * TransferPlan::kParts));
      last_part_ = std::min(last_part_, TransferPlan::kParts - 1);
      return;
    }
    for (pieces_ = 1; pieces_ < most; ++pieces_) {
      double early = 0;
      for (size_t bin = 0; bin < kBins; ++bin) {
        const double part = static_cast<double>(bin) / kBins;
        const double left = std::ceil(std::max(0.0, part - kLate) * pieces_) / pieces_;
        early += static_cast<double>(count[bin]) * std::max(0.0, left - part);
      }
      if (early <= kEarly * all) return;
    }
  }

  /// What so many pieces have of a transfer, the last ones.
  double part_of(uint32_t pieces) const {
    if (last_part_ != 0 && pieces == 1) {
      return static_cast<double>(last_part_) / TransferPlan::kParts;
    }
    return static_cast<double>(pieces) / pieces_;
  }
  /// The fewest pieces that have this part, or a little less.
  uint32_t pieces_with(double part) const {
    uint32_t pieces = 0;
    while (pieces < pieces_ && part_of(pieces) < part - kLate) ++pieces;
    return pieces;
  }

  /// From `after` back over what has the link before it, to the latest piece whose receiver can
  /// still tell in time.
  void find_moment(const Token& token, Orders& orders) {
    const Transfer& before = plan_.transfers[token.before];
    open_.assign(1, token.after);
    double latest_ns = -1;
    TransferPlan::Token best{};
    double first_ns = INFINITY;  // the earliest that comes too late
    TransferPlan::Token first{};
    for (size_t i = 0; i < open_.size() && i < kMostLookedAt; ++i) {
      const uint32_t anchor = open_[i];
      const Transfer& transfer = plan_.transfers[anchor];
      const double part = part_left(transfer, before);
      const uint32_t left = pieces_with(part);
      if (left < pieces_) {
        const double there_ns =
            static_cast<double>(transfer.end_ns + latency_ns(transfer.to, before.from)) -
            duration_ns(transfer) * part_of(left);
        if (there_ns <= latest_ns) continue;
        latest_ns = there_ns;
        best = {anchor, token.before, parts_of(left)};
        continue;
      }
      const double piece_ns =
          static_cast<double>(transfer.end_ns + latency_ns(transfer.to, before.from)) -
          duration_ns(transfer) * part_of(pieces_ - 1);
      if (piece_ns < first_ns) {
        first_ns = piece_ns;
        first = {anchor, token.before, parts_of(pieces_ - 1)};
      }
      for (size_t k = first_[anchor]; k < first_[anchor + 1]; ++k) {
        const uint32_t earlier = plan_.tokens[k].after;
        if (std::find(open_.begin(), open_.end(), earlier) == open_.end()) open_.push_back(earlier);
      }
    }
    if (latest_ns >= 0) return orders.push_back(best);
    // Nothing is to be heard of anything yet. Late, or at once: whichever is less off.
    if (first_ns < 1.25 * static_cast<double>(before.start_ns)) orders.push_back(first);
  }

  /// The fewest parts that are so many pieces.
  uint32_t parts_of(uint32_t pieces) const {
    return (pieces * TransferPlan::kParts + pieces_ - 1) / pieces_;
  }

  const Plan& plan_;
  const topology::Fabric& fabric_;
  const std::span<const int> hosts_;
  std::vector<size_t> first_;  ///< tokens by the transfer that waits
  uint32_t pieces_ = 1, last_part_ = 0;
  std::vector<uint32_t> open_;
};

/// Each piece of a part is a slot of its own, and its messages cost as much as those of whole
/// blocks.
uint32_t pieces_of_part(const Plan& plan, uint32_t most) {
  constexpr uint64_t kLeastBytes = 16 * 1024;
  uint64_t longest = 0;
  for (const Transfer& transfer : plan.transfers) longest = std::max(longest, transfer.bytes);
  return static_cast<uint32_t>(std::clamp<uint64_t>(longest / kLeastBytes, 1, std::max(1u, most)));
}

bool keeps_time(const Plan& plan) {
  double longest_ns = 0, shortest_ns = INFINITY;
  for (const Transfer& transfer : plan.transfers) {
    const double sent_ns = static_cast<double>(transfer.bytes) / transfer.rate * 1e9;
    longest_ns =
        std::max(longest_ns, static_cast<double>(transfer.end_ns - transfer.start_ns) - sent_ns);
    shortest_ns = std::min(shortest_ns, sent_ns);
  }
  return 4 * 2 * longest_ns <= shortest_ns;
}

}  // namespace

TransferPlan transfer_plan(const Plan& plan, const topology::Fabric& fabric,
                           std::span<const int> hosts, uint32_t most_pieces) {
  TransferPlan result;
  Orders orders;
  if (plan.parts > 1) {  // carried out without tokens
    result.pieces = pieces_of_part(plan, most_pieces);
  } else if (plan.tokens_ahead) {
    Moments moments(plan, fabric, hosts, most_pieces);
    orders = moments.orders();
    result.pieces = moments.pieces();
    result.last_part = moments.last_part();
  } else {
    orders = arrivals(plan, fabric, hosts);
  }
  result.time_ns = plan.time_ns;
  result.keeps_time = keeps_time(plan);
  result.bound_ns = plan.bound_ns;
  result.parts = static_cast<uint32_t>(plan.parts);
  result.relays = spreads(plan.collective) && plan.collective != Collective::kAllgather;
  const std::vector<uint32_t> order = order_of(plan, orders);
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (const uint32_t i : order) {
    const Transfer& transfer = plan.transfers[i];
    const bool forwards = transfer.forwards != Transfer::kNone;
    result.transfers.push_back({transfer.from, transfer.to, transfer.origin, transfer.target,
                                forwards ? place[transfer.forwards] : TransferPlan::kNone,
                                transfer.start_ns, transfer.end_ns,
                                static_cast<uint32_t>(transfer.part)});
    result.relays = result.relays || forwards;
  }
  for (const TransferPlan::Token& token : orders) {
    result.tokens.push_back({place[token.after], place[token.before], token.left});
  }
  result.seal();
  return result;
}

}  // namespace ibcoll::contention_free
