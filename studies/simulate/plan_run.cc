#include "studies/simulate/plan_run.h"

#include <algorithm>
#include <cmath>

namespace ibcoll::sim {

namespace {

using contention_free::Plan;
using contention_free::Token;

/// Transfers are sent in parts that end where a token goes off or a piece does.
class PlanRun final : public NetworkClient {
 public:
  PlanRun(const Plan& plan, std::vector<uint32_t> data_routes, std::vector<uint32_t> token_routes,
          std::vector<double> rates, uint32_t mtu_bytes, Network& network)
      : plan_(plan),
        mtu_bytes_(mtu_bytes),
        data_routes_(std::move(data_routes)),
        token_routes_(std::move(token_routes)),
        rates_(std::move(rates)),
        network_(network),
        states_(plan.transfers.size()) {
    list_tokens();
    list_parts();
  }

  Result<PlanTimes> run() {
    const auto count = static_cast<uint32_t>(states_.size());
    for (uint32_t t = 0; t < plan_.tokens.size(); ++t) {
      const Token& token = plan_.tokens[t];
      ++states_[token.before].waits;
      if (token.anchor == kNone) wake(token.wait_ns, t);
    }
    for (uint32_t i = 0; i < count; ++i) post(i);
    for (uint32_t i = 0; i < count; ++i) progress(i, false);  // tokens sent at the first byte
    IBCOLL_TRY(network_.run(*this));
    PlanTimes times;
    for (uint32_t i = 0; i < count; ++i) {
      if (states_[i].arrived < plan_.transfers[i].bytes) {
        return fail(ErrorCode::kInvalidProgram, "transfer {} never ends: what it waits for waits",
                    i);
      }
      times.begin_ns.push_back(states_[i].begin_ns);
      times.end_ns.push_back(states_[i].end_ns);
      times.time_us = std::max(times.time_us, static_cast<double>(states_[i].end_ns) * 1e-3);
    }
    times.link_bytes = network_.link_bytes();
    return times;
  }

  /// The last packet of a part begins to leave: its bytes are gone a packet's time later.
  void departed(uint32_t tag) override {
    if (tag >= parts_.size()) return;
    const Part& part = parts_[tag];
    const uint64_t begin = tag == states_[part.transfer].first_part ? 0 : parts_[tag - 1].end;
    const uint64_t last = (part.end - begin - 1) % mtu_bytes_ + 1;
    const double seconds = static_cast<double>(last) / plan_.transfers[part.transfer].rate;
    network_.wake_at(network_.now() + std::llround(seconds * 1e12), left_tag(tag));
  }

  void delivered(uint32_t tag) override {
    if (tag >= parts_.size()) return token_in(tag - static_cast<uint32_t>(parts_.size()));
    const Part& part = parts_[tag];
    State& state = states_[part.transfer];
    state.arrived = part.end;
    state.end_ns = network_.now() / kPicosecondsPerNanosecond;
    progress(part.transfer, false);
    for (const uint32_t next : state.followers) post(next);
  }

  void woken(uint32_t tag) override {
    if (tag < left_tag(0)) return send_token(tag - static_cast<uint32_t>(parts_.size()));
    if (tag >= begin_tag(0)) return post(tag - begin_tag(0));
    const Part& part = parts_[tag - left_tag(0)];
    states_[part.transfer].left = part.end;
    progress(part.transfer, true);
  }

 private:
  struct Part {
    uint32_t transfer;
    uint64_t end;  ///< bytes of the transfer up to its end
  };
  struct State {
    uint32_t waits = 0;    ///< tokens that are not in
    Time slack_until = 0;  ///< it begins by then at the latest, if it can
    bool timed = false;    ///< its beginning is
    uint32_t first_part = 0, parts = 0, posted = 0;
    uint64_t left = 0, arrived = 0;  ///< bytes
    int64_t begin_ns = 0, end_ns = 0;
    std::vector<uint32_t> feeders, followers;
    std::vector<uint32_t> tokens[2];  ///< to be sent, by progress: at its receiver, its sender
  };

  void list_tokens() {
    for (uint32_t t = 0; t < plan_.tokens.size(); ++t) {
      const Token& token = plan_.tokens[t];
      if (token.anchor != kNone) states_[token.anchor].tokens[token.at_sender].push_back(t);
    }
    const Sums sums(plan_.collective, plan_.servers);
    std::vector<std::vector<uint32_t>> into(sums.count());
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const size_t sum = sums.fed_by(plan_.transfers[i]);
      if (sum != Sums::kNone) into[sum].push_back(i);
    }
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const contention_free::Transfer& transfer = plan_.transfers[i];
      const auto feed = [&](uint32_t by) {
        states_[i].feeders.push_back(by);
        states_[by].followers.push_back(i);
      };
      if (transfer.forwards == kNone) continue;
      const size_t sum = sums.awaited_by(transfer);
      if (sum == Sums::kNone) {
        feed(transfer.forwards);
        continue;
      }
      for (const uint32_t by : into[sum]) feed(by);
    }
  }

  void list_parts() {
    std::vector<uint64_t> ends;
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const uint64_t bytes = plan_.transfers[i].bytes;
      ends.assign(1, bytes);
      for (const auto& tokens : states_[i].tokens) {
        for (const uint32_t t : tokens) {
          if (plan_.tokens[t].bytes_left < bytes)
            ends.push_back(bytes - plan_.tokens[t].bytes_left);
        }
      }
      if (!states_[i].feeders.empty() || !states_[i].followers.empty()) {
        for (uint64_t end = plan_.piece_bytes; end < bytes; end += plan_.piece_bytes) {
          ends.push_back(end);
        }
      }
      std::sort(ends.begin(), ends.end());
      ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
      states_[i].first_part = static_cast<uint32_t>(parts_.size());
      states_[i].parts = static_cast<uint32_t>(ends.size());
      for (const uint64_t end : ends) parts_.push_back({i, end});
    }
  }

  /// Tags: parts, tokens, parts that have left, transfers that may begin.
  uint32_t left_tag(uint32_t part) const {
    return static_cast<uint32_t>(parts_.size() + plan_.tokens.size()) + part;
  }

  uint32_t begin_tag(uint32_t transfer) const {
    return left_tag(static_cast<uint32_t>(parts_.size())) + transfer;
  }

  /// Whether a transfer whose tokens are there has to wait for its time.
  bool is_early(uint32_t i) {
    State& state = states_[i];
    const Time planned = plan_.transfers[i].start_ns * kPicosecondsPerNanosecond;
    const Time begin = std::min(planned, state.slack_until);
    if (network_.now() >= begin) return false;
    if (!state.timed) network_.wake_at(begin, begin_tag(i));
    state.timed = true;
    return true;
  }

  void wake(int64_t delay_ns, uint32_t token) {
    network_.wake_at(network_.now() + delay_ns * kPicosecondsPerNanosecond,
                     static_cast<uint32_t>(parts_.size()) + token);
  }

  /// Sends the parts of a transfer that can go.
  void post(uint32_t i) {
    State& state = states_[i];
    if (state.waits > 0 || is_early(i)) return;
    for (; state.posted < state.parts; ++state.posted) {
      const uint32_t part = state.first_part + state.posted;
      // A piece goes on when all of it is there.
      const uint64_t piece = plan_.piece_bytes;
      const uint64_t needed =
          std::min(plan_.transfers[i].bytes, (parts_[part].end + piece - 1) / piece * piece);
      const bool there = std::all_of(state.feeders.begin(), state.feeders.end(),
                                     [&](uint32_t by) { return states_[by].arrived >= needed; });
      if (!there) return;
      const uint64_t begin = state.posted == 0 ? 0 : parts_[part - 1].end;
      if (state.posted == 0) state.begin_ns = network_.now() / kPicosecondsPerNanosecond;
      network_.send({data_routes_[i], i, parts_[part].end - begin, false, rates_[i]}, part);
      if (state.posted == 0) {
        ++state.posted;
        progress(i, true);
        --state.posted;
      }
    }
  }

  /// Sends the tokens that a transfer's progress lets go. Those of all bytes still to come go when
  /// the transfer begins.
  void progress(uint32_t i, bool at_sender) {
    State& state = states_[i];
    std::vector<uint32_t>& tokens = state.tokens[at_sender];
    const uint64_t done = at_sender ? state.left : state.arrived;
    const auto ready = [&](uint32_t t) {
      const uint64_t needed = plan_.transfers[i].bytes - plan_.tokens[t].bytes_left;
      return needed == 0 ? (at_sender ? state.posted > 0 : done > 0) : done >= needed;
    };
    const auto going =
        std::stable_partition(tokens.begin(), tokens.end(), [&](uint32_t t) { return !ready(t); });
    const std::vector<uint32_t> now(going, tokens.end());
    tokens.erase(going, tokens.end());
    for (const uint32_t t : now) {
      if (plan_.tokens[t].wait_ns > 0) {
        wake(plan_.tokens[t].wait_ns, t);
      } else {
        send_token(t);
      }
    }
  }

  void send_token(uint32_t t) {
    if (token_routes_[t] == kNone) return token_in(t);
    network_.send({token_routes_[t], plan_.tokens[t].before, 0, true},
                  static_cast<uint32_t>(parts_.size()) + t);
  }

  void token_in(uint32_t t) {
    const Token& token = plan_.tokens[t];
    State& state = states_[token.before];
    state.slack_until =
        std::max(state.slack_until, network_.now() + token.slack_ns * kPicosecondsPerNanosecond);
    if (--state.waits == 0) post(token.before);
  }

  const Plan& plan_;
  const uint32_t mtu_bytes_;
  const std::vector<uint32_t> data_routes_, token_routes_;
  const std::vector<double> rates_;  ///< of transfers, as NetworkMessage::rate
  Network& network_;
  std::vector<State> states_;
  std::vector<Part> parts_;
};

}  // namespace

Result<PlanTimes> simulate_plan(const topology::Fabric& fabric, const std::vector<int>& hosts,
                                const contention_free::Plan& plan) {
  NetworkOptions options;
  options.level = Level::kPacket;  // flows would be on all links of a route at once
  options.queues = Queues::kOutput;
  options.mtu_bytes = contention_free::packet_bytes(plan);
  Routes routes(fabric, true);
  const auto host = [&](int server) { return hosts.empty() ? server : hosts[server]; };
  const auto add = [&](int from, int to) -> Result<uint32_t> {
    const int a = host(from), b = host(to);
    for (const int end : {a, b}) {
      if (end >= 0 && end < fabric.hosts()) continue;
      return fail(ErrorCode::kInvalidArgument, "no host {} in '{}'", end, fabric.name());
    }
    if (a == b) return kNone;
    return routes.add(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
  };
  std::vector<uint32_t> data, tokens;
  std::vector<double> rates;
  for (const contention_free::Transfer& transfer : plan.transfers) {
    IBCOLL_ASSIGN(data.emplace_back(), add(transfer.from, transfer.to));
    // Flow control keeps a sender to what the slowest link of its route takes.
    const int from = host(transfer.from);
    const double route = fabric.route_bandwidth(from, host(transfer.to));
    rates.push_back(route < fabric.link(fabric.host_link(from)).bandwidth ? route : 0);
  }
  for (const Token& token : plan.tokens) {
    IBCOLL_ASSIGN(tokens.emplace_back(), add(plan.sent_by(token), plan.sent_to(token)));
  }
  const auto senders = static_cast<uint32_t>(std::max<size_t>(plan.transfers.size(), 1));
  IBCOLL_ASSIGN(const auto network, Network::create(routes, options, senders));
  IBCOLL_ASSIGN(PlanTimes times, PlanRun(plan, std::move(data), std::move(tokens), std::move(rates),
                                         options.mtu_bytes, *network)
                                     .run());
  for (size_t i = 0; i < plan.transfers.size(); ++i) {
    const contention_free::Transfer& transfer = plan.transfers[i];
    if (transfer.forwards != kNone) continue;
    const int from = host(transfer.from), to = host(transfer.to);
    const double alone_us =
        static_cast<double>(fabric.route_latency_ns(from, to)) * 1e-3 +
        static_cast<double>(transfer.bytes) * 1e6 / fabric.route_bandwidth(from, to);
    const double took_us = static_cast<double>(times.end_ns[i] - times.begin_ns[i]) * 1e-3;
    times.waited_us = std::max(times.waited_us, took_us - alone_us);
  }
  return times;
}

}  // namespace ibcoll::sim
