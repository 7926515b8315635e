#include "engine/planner/contention_free/plan_times.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ibcoll::contention_free {

namespace {

bool stands_before(const Token& a, const Token& b) {
  return std::pair(a.before, a.after) < std::pair(b.before, b.after);
}

}  // namespace

void retime(const Problem& problem, Plan& plan) {
  const Sums sums(plan.collective, plan.servers);
  std::vector<int64_t> ready(sums.count());
  size_t token = 0;
  plan.time_ns = 0;
  for (uint32_t i = 0; i < plan.transfers.size(); ++i) {
    Transfer& transfer = plan.transfers[i];
    int64_t start = 0;
    for (; token < plan.tokens.size() && plan.tokens[token].before == i; ++token) {
      const Token& t = plan.tokens[token];
      if (t.anchor == kNone) {
        start = std::max(start, t.wait_ns);
        continue;
      }
      const Transfer& anchor = plan.transfers[t.anchor];
      const auto left = static_cast<int64_t>(static_cast<double>(t.bytes_left) * 1e9 / anchor.rate);
      const int64_t sent =
          (t.at_sender ? anchor.start_ns + duration_ns(anchor) : anchor.end_ns) - left + t.wait_ns;
      start =
          std::max(start, sent + problem.latency_ns(plan.sent_by(t), transfer.from) + t.slack_ns);
    }
    if (const size_t sum = sums.awaited_by(transfer); sum != Sums::kNone) {
      start = std::max(start, ready[sum]);
    } else if (transfer.forwards != kNone) {
      start = std::max(start, first_piece_ns(plan, plan.transfers[transfer.forwards]));
    }
    transfer.start_ns = start;
    transfer.end_ns =
        start + problem.latency_ns(transfer.from, transfer.to) + duration_ns(transfer);
    if (const size_t sum = sums.fed_by(transfer); sum != Sums::kNone) {
      ready[sum] = std::max(ready[sum], first_piece_ns(plan, transfer));
    }
    plan.time_ns = std::max(plan.time_ns, transfer.end_ns);
  }
}

void sort_plan(Plan& plan) {
  const auto key = [](const Transfer& t) { return std::tuple(t.start_ns, t.from, t.to); };
  const auto earlier = [&](const Transfer& a, const Transfer& b) { return key(a) < key(b); };
  if (std::is_sorted(plan.transfers.begin(), plan.transfers.end(), earlier)) return;
  std::vector<uint32_t> order(plan.transfers.size()), place(plan.transfers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return earlier(plan.transfers[a], plan.transfers[b]);
  });
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<Transfer> transfers(plan.transfers.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    transfers[i] = plan.transfers[order[i]];
    if (transfers[i].forwards != kNone) transfers[i].forwards = place[transfers[i].forwards];
  }
  plan.transfers = std::move(transfers);
  // Tokens stand by what waits for them, a few together.
  std::vector<uint32_t> first(order.size() + 1, 0);
  for (const Token& token : plan.tokens) ++first[token.before + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Token> tokens;
  tokens.reserve(plan.tokens.size());
  for (const uint32_t old : order) {
    const auto begin = static_cast<ptrdiff_t>(tokens.size());
    for (uint32_t t = first[old]; t < first[old + 1]; ++t) {
      Token& token = tokens.emplace_back(plan.tokens[t]);
      token.after = place[token.after];
      token.before = place[token.before];
      if (token.anchor != kNone) token.anchor = place[token.anchor];
    }
    std::sort(tokens.begin() + begin, tokens.end(), stands_before);
  }
  plan.tokens = std::move(tokens);
}

uint64_t relay_buffer_bytes(const Plan& plan) {
  if (spreads(plan.collective)) return 0;
  struct Change {
    int server;
    int64_t time;
    int64_t bytes;
  };
  std::vector<Change> changes;
  for (const Transfer& transfer : plan.transfers) {
    if (transfer.forwards == kNone) continue;
    const Transfer& arrival = plan.transfers[transfer.forwards];
    const auto bytes = static_cast<int64_t>(transfer.bytes);
    changes.push_back({transfer.from, arrival.end_ns - duration_ns(arrival), bytes});
    changes.push_back({transfer.from, transfer.start_ns + duration_ns(transfer), -bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tuple(a.server, a.time, a.bytes) < std::tuple(b.server, b.time, b.bytes);
  });
  int64_t held = 0, most = 0;
  for (const Change& change : changes) {
    held += change.bytes;  // every server's sum ends at 0
    most = std::max(most, held);
  }
  return static_cast<uint64_t>(most);
}

}  // namespace ibcoll::contention_free
