#include "studies/verification/link_sharing.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/units.h"

namespace ibcoll {
namespace {

/// Bandwidths are sums of decimals: that much over a link's is none.
constexpr double kTolerance = 1e-9;

class Proof {
 public:
  Proof(const topology::Fabric& fabric, const Shape& shape, std::span<const int> hosts,
        std::span<const OrderedPut> puts, int64_t block_bytes)
      : fabric_(fabric), shape_(shape), hosts_(hosts), puts_(puts), block_bytes_(block_bytes) {
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

  /// What passes the link in all, if it is less than is under way on it.
  std::optional<int64_t> small_bytes(int link) const {
    const topology::Link& l = fabric_.link(link);
    int64_t bytes = 0;
    for (const int put : over_link_[link]) bytes += puts_[put].blocks * block_bytes_;
    const double under_way = l.bandwidth * 1e-9 * static_cast<double>(l.latency_ns);
    if (block_bytes_ == 0 || static_cast<double>(bytes) >= under_way) return std::nullopt;
    return bytes;
  }

  void check(int link) {
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
      Search search(*this, link);
      if (!search.run()) return;
      if (const auto bytes = small_bytes(link)) {
        result_.small.push_back(fmt::format("{}: {} puts of {} in all", name(link),
                                            over_link_[link].size(), format_size(*bytes)));
        return;
      }
      result_.holds = false;
      result_.witness = counterexample(link, put);
      if (result_.witness.empty()) result_.witness = name_all(link, search.together());
      if (!result_.witness.empty()) return;
      result_.witness =
          fmt::format("{}: not proven: {} may run with more than it carries, {} first", name(link),
                      name_put(put), name_put(other));
      return;
    }
  }

  /// Looks for puts that may all run at once and exceed a link, by trying all there are, up to a
  /// number.
  class Search {
   public:
    Search(const Proof& proof, int link) : proof_(proof), link_(link) {}
    /// False: there are none.
    bool run() {
      together_.clear();
      const bool found = grow(Need(proof_), proof_.over_link_[link_]);
      if (!found) together_.clear();
      return found || left_ <= 0;
    }
    /// What was found; empty where the search was given up.
    const std::vector<int>& together() const { return together_; }

   private:
    /// Adds puts of `candidates`, which may all run with those there are.
    bool grow(const Need& need, const std::vector<int>& candidates) {
      Need most = need;
      for (const int put : candidates) most.add(put);
      if (!most.exceeds(link_)) return false;
      for (size_t i = 0; i < candidates.size() && left_ > 0; ++i) {
        left_ -= static_cast<int64_t>(candidates.size() - i);
        Need next = need;
        next.add(candidates[i]);
        together_.push_back(candidates[i]);
        if (next.exceeds(link_)) return true;
        std::vector<int> rest;
        for (size_t k = i + 1; k < candidates.size(); ++k) {
          if (proof_.at_once(candidates[i], candidates[k])) rest.push_back(candidates[k]);
        }
        if (grow(next, rest)) return true;
        together_.pop_back();
      }
      return false;
    }

    const Proof& proof_;
    const int link_;
    int64_t left_ = 5'000'000;  ///< looks at a put: a second or two
    std::vector<int> together_;
  };

  std::string name_all(int link, const std::vector<int>& together) const {
    if (together.empty()) return {};
    Need need(*this);
    for (const int put : together) need.add(put);
    return fmt::format("{}: {}, {} and {} more may run at once and need {:g} MB/s", name(link),
                       name_put(together[0]), name_put(together[1]), together.size() - 2,
                       need.total() / 1e6);
  }

  /// Puts that may all run at once and exceed the link, one of them given; empty if none is found
  /// at once.
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
      if (need.exceeds(link)) return name_all(link, together);
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
  const int64_t block_bytes_;
  std::vector<std::vector<int>> over_link_;
  std::vector<double> rates_;  ///< by put: the smallest bandwidth of its route
  std::vector<int> servers_;   ///< by put: of its sender
  LinkSharing result_;
};

}  // namespace

LinkSharing prove_link_sharing(const topology::Fabric& fabric, const Shape& shape,
                               std::span<const int> hosts, std::span<const OrderedPut> puts,
                               int64_t block_bytes) {
  return Proof(fabric, shape, hosts, puts, block_bytes).prove();
}

}  // namespace ibcoll
