#include "engine/planner/link_sharing.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

namespace ibcoll {
namespace {

/// Bandwidths are sums of decimals: that much over a link's is none.
constexpr double kTolerance = 1e-9;

class Proof {
 public:
  Proof(const topology::Fabric& fabric, const Shape& shape, std::span<const int> hosts,
        std::span<const OrderedPut> puts)
      : fabric_(fabric), shape_(shape), hosts_(hosts), puts_(puts) {
    over_link_.resize(fabric.links());
    for (size_t p = 0; p < puts.size(); ++p) {
      const int from = hosts[shape.server_of(puts[p].from)],
                to = hosts[shape.server_of(puts[p].to)];
      rates_.push_back(fabric.route_bandwidth(from, to));
      servers_.push_back(shape.server_of(puts[p].from));
      fabric.visit_route(from, to, [&](int link) {
        over_link_[link].push_back(static_cast<int>(p));
        ++result_.crossings;
      });
    }
    result_.puts = static_cast<int64_t>(puts.size());
  }

  LinkSharing prove() {
    for (int link = 0; link < fabric_.links() && result_.holds; ++link) {
      if (!never_exceeded(link)) check(link);
    }
    return std::move(result_);
  }

 private:
  double host_bandwidth(int server) const {
    return fabric_.link(fabric_.host_link(hosts_[server])).bandwidth;
  }
  bool exceeds(double needed, int link) const {
    return needed > fabric_.link(link).bandwidth * (1 + kTolerance);
  }
  bool at_once(int a, int b) const {
    return !puts_[a].before(puts_[b]) && !puts_[b].before(puts_[a]);
  }

  /// Puts of which no two run at once, unless they leave the same server.
  struct Chain {
    std::vector<int> puts;
    std::map<int, double> of_server;
  };

  /// Sorts the puts of a link into chains: at most one server's of each chain run at once, so that
  /// chains together bound what is needed (Dilworth), however puts of different chains meet. True
  /// if the link carries that.
  bool chains_fit(int link) const {
    std::vector<std::pair<size_t, int>> order;  // how many come before it
    for (const int put : over_link_[link]) {
      size_t earlier = 0;
      for (const int other : over_link_[link]) earlier += puts_[other].before(puts_[put]) ? 1 : 0;
      order.emplace_back(earlier, put);
    }
    std::sort(order.begin(), order.end());
    std::vector<Chain> chains;
    for (const auto& [earlier, put] : order) {
      const auto goes = [&, put = put](const Chain& chain) {
        return std::all_of(chain.puts.rbegin(), chain.puts.rend(), [&](int other) {
          return servers_[other] == servers_[put] || !at_once(other, put);
        });
      };
      // The one that ended last, so that those that ended before stay free for others.
      auto best = chains.end();
      for (auto chain = chains.begin(); chain != chains.end(); ++chain) {
        if (!goes(*chain)) continue;
        if (best == chains.end() || puts_[best->puts.back()].before(puts_[chain->puts.back()])) {
          best = chain;
        }
      }
      if (best == chains.end()) best = chains.insert(chains.end(), Chain{});
      best->puts.push_back(put);
      double& sum = best->of_server[servers_[put]];
      sum = std::min(sum + rates_[put], host_bandwidth(servers_[put]));
    }
    double total = 0;
    for (const Chain& chain : chains) {
      double most = 0;
      for (const auto& [server, sum] : chain.of_server) most = std::max(most, sum);
      total += most;
    }
    return !exceeds(total, link);
  }

  /// What puts that run at once need of a link.
  class Need {
   public:
    explicit Need(const Proof& proof) : proof_(proof) {}
    /// Puts from one server to another share one route and count once.
    void add(int put) {
      const int from = proof_.servers_[put];
      if (!pairs_.insert({from, proof_.shape_.server_of(proof_.puts_[put].to)}).second) return;
      double& sum = of_server_[from];
      const double most = proof_.host_bandwidth(from), before = std::min(sum, most);
      sum += proof_.rates_[put];
      total_ += std::min(sum, most) - before;
    }
    double total() const { return total_; }
    /// A server is no rival of itself: what it sends too much waits at its own host.
    bool exceeds(int link) const { return of_server_.size() > 1 && proof_.exceeds(total_, link); }

   private:
    const Proof& proof_;
    std::set<std::pair<int, int>> pairs_;
    std::map<int, double> of_server_;
    double total_ = 0;
  };

  /// Even if all that pass it ran at once.
  bool never_exceeded(int link) const {
    Need need(*this);
    for (const int put : over_link_[link]) need.add(put);
    return !need.exceeds(link);
  }

  void check(int link) {
    std::string not_proven;
    for (const int put : over_link_[link]) {
      Need need(*this);
      int other = put;
      for (const int candidate : over_link_[link]) {
        if (candidate != put && !at_once(put, candidate)) continue;
        need.add(candidate);
        if (servers_[other] == servers_[put]) other = candidate;
      }
      if (!need.exceeds(link)) continue;
      if (chains_fit(link)) return;
      result_.holds = false;
      result_.witness = counterexample(link, put);
      if (!result_.witness.empty()) return;
      not_proven = fmt::format("{}: not proven: {} may run with more than it carries, {} first",
                               name(link), name_put(put), name_put(other));
    }
    result_.witness = std::move(not_proven);
  }

  /// Puts that may all run at once and exceed the link, one of them given; empty if none is found.
  std::string counterexample(int link, int put) const {
    for (const int candidate : over_link_[link]) {
      if (servers_[candidate] == servers_[put] || !at_once(put, candidate)) continue;
      if (!exceeds(rates_[put] + rates_[candidate], link)) continue;
      return fmt::format("{}: {} and {} may run at once", name(link), name_put(put),
                         name_put(candidate));
    }
    // Puts of one step are the likeliest to run at once: those of near steps first.
    std::vector<int> candidates = over_link_[link];
    const auto steps_off = [&](int other) {
      return std::abs(int64_t{puts_[other].step} - int64_t{puts_[put].step});
    };
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](int a, int b) { return steps_off(a) < steps_off(b); });
    Need need(*this);
    need.add(put);
    std::vector<int> together{put};
    for (const int candidate : candidates) {
      const bool all = std::all_of(together.begin(), together.end(), [&](int one) {
        return one != candidate && at_once(one, candidate);
      });
      if (!all) continue;
      together.push_back(candidate);
      need.add(candidate);
      if (!need.exceeds(link)) continue;
      return fmt::format("{}: {}, {} and {} more may run at once and need {:g} MB/s", name(link),
                         name_put(put), name_put(together[1]), together.size() - 2,
                         need.total() / 1e6);
    }
    return {};
  }

  std::string name(int link) const {
    const topology::Link& l = fabric_.link(link);
    return fmt::format("link {}[{}] -> {}[{}] of {:g} MB/s", fabric_.node(l.from).name, l.from_port,
                       fabric_.node(l.to).name, l.to_port, l.bandwidth / 1e6);
  }
  std::string name_put(int put) const {
    return fmt::format("the put of rank {} to rank {} (step {}, {:g} MB/s)", puts_[put].from,
                       puts_[put].to, puts_[put].step, rates_[put] / 1e6);
  }

  const topology::Fabric& fabric_;
  const Shape& shape_;
  std::span<const int> hosts_;
  std::span<const OrderedPut> puts_;
  std::vector<std::vector<int>> over_link_;
  std::vector<double> rates_;  ///< by put: the smallest bandwidth of its route
  std::vector<int> servers_;   ///< by put: of its sender
  LinkSharing result_;
};

}  // namespace

LinkSharing prove_link_sharing(const topology::Fabric& fabric, const Shape& shape,
                               std::span<const int> hosts, std::span<const OrderedPut> puts) {
  return Proof(fabric, shape, hosts, puts).prove();
}

}  // namespace ibcoll
