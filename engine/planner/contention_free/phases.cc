#include "engine/planner/contention_free/phases.h"

#include <algorithm>
#include <numeric>

namespace ibcoll::contention_free {

namespace {

/// Looks at a server's shipments for one switch, at most.
constexpr int64_t kMostPhaseLooks = 40'000'000;

struct InnerHop {
  int link;
  int shift;  ///< phases between leaving the sender and entering the link
};

class Phases {
 public:
  explicit Phases(const Problem& problem) : problem_(problem) {}

  std::vector<uint32_t> run() {
    if (!prepare()) return {};
    std::vector<uint32_t> order;
    std::vector<int> turn(problem_.servers);
    std::iota(turn.begin(), turn.end(), 0);
    int64_t looks = 0;
    for (int phase = 0; order.size() < problem_.shipments.size(); ++phase) {
      looks += static_cast<int64_t>(turn.size()) * groups_;
      if (looks > kMostPhaseLooks) return {};
      turn.erase(std::remove_if(turn.begin(), turn.end(), [&](int s) { return to_send_[s] == 0; }),
                 turn.end());
      std::sort(turn.begin(), turn.end(), [&](int a, int b) {
        const auto key = [&](int server) {
          return std::pair(-to_send_[server],
                           (problem_.position[server] + phase) % problem_.servers);
        };
        return key(a) < key(b);
      });
      for (const int server : turn) {
        const uint32_t shipment = pick(server, phase);
        if (shipment != Transfer::kNone) order.push_back(shipment);
      }
    }
    return order;
  }

 private:
  bool prepare() {
    const topology::Fabric& fabric = problem_.fabric;
    group_of_.resize(problem_.servers);
    std::vector<int> group_of_switch(fabric.nodes(), -1);
    for (const int server : problem_.by_position) {
      int& group = group_of_switch[problem_.leaf(server)];
      if (group < 0) group = groups_++;
      group_of_[server] = group;
    }
    const size_t groups = static_cast<size_t>(groups_);
    left_.resize(problem_.servers * groups);
    inner_.resize(groups * groups);
    std::vector<char> known(groups * groups, 0);
    used_.resize(fabric.links());
    carries_.assign(fabric.links(), 0);
    to_send_.assign(problem_.servers, 0);
    double all = 0;
    for (const Shipment& shipment : problem_.shipments)
      all += static_cast<double>(shipment.duration_ns);
    phase_ns_ = std::max<int64_t>(1, static_cast<int64_t>(all / problem_.shipments.size()));
    for (int server = 0; server < problem_.servers; ++server) {
      const int up = fabric.host_link(problem_.hosts[server]);
      down_.push_back(topology::Fabric::reverse(up));
    }
    std::vector<uint64_t> by_shift;
    by_shift.reserve(problem_.shipments.size());
    for (uint32_t i = 0; i < problem_.shipments.size(); ++i) {
      const Shipment& shipment = problem_.shipments[i];
      const int shift =
          (problem_.position[shipment.to] - problem_.position[shipment.from] + problem_.servers) %
          problem_.servers;
      by_shift.push_back(static_cast<uint64_t>(shift) << 32 | i);
    }
    std::sort(by_shift.begin(), by_shift.end());
    Path path;
    std::vector<InnerHop> hops;
    for (const uint64_t key : by_shift) {
      const auto index = static_cast<uint32_t>(key);
      const Shipment& shipment = problem_.shipments[index];
      const std::span<const Hop> route = problem_.route(index, path);
      hops.clear();
      for (size_t i = 0; i < route.size(); ++i) {
        carries_[route[i].link] += route[i].units;
        if (i == 0 || i + 1 == route.size()) continue;
        hops.push_back({route[i].link, phases(route[i].before_ns)});
      }
      const size_t pair = group_of_[shipment.from] * groups + group_of_[shipment.to];
      const auto same = [](const InnerHop& a, const InnerHop& b) { return a.link == b.link; };
      if (known[pair] &&
          !std::equal(hops.begin(), hops.end(), inner_[pair].begin(), inner_[pair].end(), same)) {
        return false;
      }
      known[pair] = 1;
      inner_[pair] = hops;
      left_[shipment.from * groups + group_of_[shipment.to]].push_back({index, down_[shipment.to]});
      ++to_send_[shipment.from];
    }
    phases_left_.resize(carries_.size());
    for (size_t link = 0; link < carries_.size(); ++link) {
      phases_left_[link] = static_cast<double>(carries_[link]) / problem_.links[link].units;
    }
    return true;
  }

  int phases(int64_t ns) const { return static_cast<int>((ns + phase_ns_ / 2) / phase_ns_); }
  bool free(int link, int phase, int need) {
    std::vector<uint16_t>& used = used_[link];
    if (used.size() <= static_cast<size_t>(phase)) used.resize(phase + 64);
    return used[phase] + need <= problem_.links[link].units;
  }

  uint32_t pick(int server, int phase) {
    double best = -1;
    size_t best_group = 0, best_at = 0;
    for (int group = 0; group < groups_; ++group) {
      const size_t place = static_cast<size_t>(server) * groups_ + group;
      const std::vector<Waiting>& shipments = left_[place];
      if (shipments.empty()) continue;
      const Shipment& first = problem_.shipments[shipments[0].shipment];
      const auto& inner = inner_[static_cast<size_t>(group_of_[server]) * groups_ + group];
      bool open = true;
      double busiest = 0;
      for (const InnerHop& hop : inner) {
        const int need = problem_.links[hop.link].units_of(first.rate);
        open = free(hop.link, phase + hop.shift, need);
        if (!open) break;
        busiest = std::max(busiest, phases_left_[hop.link]);
      }
      if (!open) continue;
      const int arrival = phase + phases(first.latency_ns);
      for (size_t i = 0; i < shipments.size(); ++i) {
        const int last = shipments[i].down;
        const double receiver = phases_left_[last];
        const double value = std::max(busiest, receiver) + receiver * 1e-3;
        if (value <= best) continue;
        const double rate = problem_.shipments[shipments[i].shipment].rate;
        if (!free(last, arrival, problem_.links[last].units_of(rate))) continue;
        best = value;
        best_group = place;
        best_at = i;
      }
    }
    if (best < 0) return Transfer::kNone;
    std::vector<Waiting>& shipments = left_[best_group];
    const uint32_t index = shipments[best_at].shipment;
    shipments.erase(shipments.begin() + static_cast<ptrdiff_t>(best_at));
    take(index, phase);
    return index;
  }

  void take(uint32_t index, int phase) {
    const Shipment& shipment = problem_.shipments[index];
    const size_t groups = static_cast<size_t>(groups_);
    const auto use = [&](int link, int at) {
      const int need = problem_.links[link].units_of(shipment.rate);
      free(link, at, 0);
      used_[link][at] = static_cast<uint16_t>(used_[link][at] + need);
      carries_[link] -= need;
      phases_left_[link] = static_cast<double>(carries_[link]) / problem_.links[link].units;
    };
    for (const InnerHop& hop : inner_[group_of_[shipment.from] * groups + group_of_[shipment.to]]) {
      use(hop.link, phase + hop.shift);
    }
    use(down_[shipment.to], phase + phases(shipment.latency_ns));
    --to_send_[shipment.from];
  }

  struct Waiting {
    uint32_t shipment;
    int down;  ///< its receiver's link
  };

  const Problem& problem_;
  int groups_ = 0;                            ///< servers of one switch each
  std::vector<int> group_of_;                 ///< by server
  std::vector<std::vector<InnerHop>> inner_;  ///< links between switches, by pair of groups
  std::vector<int> down_;                     ///< links into servers
  std::vector<std::vector<Waiting>> left_;    ///< shipments, by server and receiving group
  std::vector<std::vector<uint16_t>> used_;   ///< slots, by link and phase
  std::vector<int64_t> carries_;              ///< slots still to be used, by link
  std::vector<double> phases_left_;           ///< of that, by link
  std::vector<int> to_send_;                  ///< shipments, by server
  int64_t phase_ns_ = 1;
};

}  // namespace

std::vector<uint32_t> phase_order(const Problem& problem) {
  if (problem.shipments.empty()) return {};
  return Phases(problem).run();
}

}  // namespace ibcoll::contention_free
