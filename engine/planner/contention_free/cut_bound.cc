#include "engine/planner/contention_free/cut_bound.h"

#include <algorithm>
#include <numeric>

#include "engine/planner/contention_free/max_flow.h"
#include "engine/planner/contention_free/shipments.h"

namespace ibcoll::contention_free {

namespace {

/// Flows are found on networks with no more servers times links; a flow takes about as long as
/// there are links.
constexpr int64_t kMostForFlows = 4'000'000;
/// What is not this part longer is no other bound.
constexpr double kLonger = 1e-6;

class Cuts {
 public:
  /// `bytes`: that each server has for all others. With `back` they come from all others.
  Cuts(const Problem& problem, std::vector<double> bytes, bool back)
      : problem_(problem), fabric_(problem.fabric), bytes_(std::move(bytes)), back_(back) {
    for (const double of : bytes_) all_ += of;
    server_of_.assign(fabric_.hosts(), -1);
    for (int s = 0; s < problem.servers; ++s) server_of_[problem.hosts[s]] = s;
  }

  double bound_ns() {
    if (all_ <= 0 || problem_.servers < 2) return 0;
    for (int s = 0; s < problem_.servers; ++s) {
      const int out = fabric_.host_link(problem_.hosts[s]);
      cut(bytes_[s], 1, fabric_.link(out).bandwidth);
    }
    for (int s = fabric_.hosts(); s < fabric_.nodes(); ++s) cut_off_switch(s);
    if (int64_t{problem_.servers} * fabric_.links() <= kMostForFlows) find_cuts();
    return longest_ns_;
  }

 private:
  /// Of what some servers have for others and of what others have for them: cables are as wide
  /// either way.
  void cut(double inside, int servers, double bandwidth) {
    if (servers == 0 || servers == problem_.servers) return;
    longest_ns_ = std::max(longest_ns_, std::max(inside, all_ - inside) * 1e9 / bandwidth);
  }

  void cut_off_switch(int node) {
    double inside = 0, bandwidth = 0;
    int servers = 0;
    for (int port = 1; port <= fabric_.ports(node); ++port) {
      const int out = fabric_.link_at(node, port);
      if (out < 0) continue;
      const topology::Link& link = fabric_.link(out);
      if (!fabric_.is_host(link.to)) {
        bandwidth += link.bandwidth;
      } else if (const int server = server_of_[link.to]; server >= 0) {
        inside += bytes_[server];
        ++servers;
      }
    }
    cut(inside, servers, bandwidth);
  }

  void cut_off(const std::vector<char>& in) {
    double inside = 0, bandwidth = 0;
    int servers = 0;
    for (int s = 0; s < problem_.servers; ++s) {
      if (!in[problem_.hosts[s]]) continue;
      inside += bytes_[s];
      ++servers;
    }
    for (int link = 0; link < fabric_.links(); ++link) {
      const topology::Link& l = fabric_.link(link);
      if (in[l.from] && !in[l.to]) bandwidth += l.bandwidth;
    }
    cut(inside, servers, bandwidth);
  }

  /// For each server in turn a flow of all data to it; a cut that does not let it through in the
  /// time known so far takes longer. The time only grows, so servers done stay done.
  void find_cuts() {
    const int source = fabric_.nodes();
    MaxFlow flow(fabric_.nodes() + 1);
    for (int link = 0; link < fabric_.links(); ++link) {
      const topology::Link& l = fabric_.link(link);
      flow.add_arc(back_ ? l.to : l.from, back_ ? l.from : l.to);
    }
    for (int s = 0; s < problem_.servers; ++s) {
      flow.set_capacity(flow.add_arc(source, problem_.hosts[s]), bytes_[s]);
    }
    std::vector<char> in(fabric_.nodes());
    for (int s = 0; s < problem_.servers; ++s) {
      for (bool longer = true; longer;) {
        for (int link = 0; link < fabric_.links(); ++link) {
          flow.set_capacity(link, fabric_.link(link).bandwidth * longest_ns_ * 1e-9);
        }
        if (flow.run(source, problem_.hosts[s]) >= all_ * (1 - kLonger)) break;
        for (int node = 0; node < fabric_.nodes(); ++node) in[node] = flow.on_source_side(node);
        const double before_ns = longest_ns_;
        cut_off(in);
        longer = longest_ns_ > before_ns * (1 + kLonger);
      }
    }
  }

  const Problem& problem_;
  const topology::Fabric& fabric_;
  const std::vector<double> bytes_;
  const bool back_;
  double all_ = 0, longest_ns_ = 0;
  std::vector<int> server_of_;  ///< by host, -1 for none
};

}  // namespace

double cut_bound_ns(const Problem& problem) {
  const auto servers = static_cast<size_t>(problem.servers);
  std::vector<double> out(servers), into(servers);
  visit_messages(problem.inputs, [&](int origin, int target, uint64_t bytes) {
    if (origin != kEveryone && target == kEveryone) out[origin] += static_cast<double>(bytes);
    if (origin == kEveryone && target != kEveryone) into[target] += static_cast<double>(bytes);
  });
  if (problem.inputs.collective != Collective::kAllreduce) {
    return std::max(Cuts(problem, std::move(out), false).bound_ns(),
                    Cuts(problem, std::move(into), true).bound_ns());
  }
  // Of what is for one side partial results come out of the other, of what is for the other the
  // sums of this side: all there is goes through any cut, as if one server had it.
  const double all = std::accumulate(out.begin(), out.end(), 0.0);
  std::fill(out.begin(), out.end(), 0.0);
  out[0] = all;
  return Cuts(problem, std::move(out), false).bound_ns();
}

}  // namespace ibcoll::contention_free
