#include "engine/planner/contention_free/check_links.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace ibcoll::contention_free {

namespace {

using Windows = std::vector<LinkWindow>;

/// Calls `visit(link, begin, end)` for the windows of each link, by beginning.
template <class Visit>
Status visit_links(Windows& windows, Visit&& visit) {
  std::sort(windows.begin(), windows.end(), [](const LinkWindow& a, const LinkWindow& b) {
    return std::tuple(a.link, a.begin_ns, a.transfer) < std::tuple(b.link, b.begin_ns, b.transfer);
  });
  for (size_t begin = 0, end = 0; begin < windows.size(); begin = end) {
    while (end < windows.size() && windows[end].link == windows[begin].link) ++end;
    IBCOLL_TRY(visit(windows[begin].link, windows.data() + begin, windows.data() + end));
  }
  return {};
}

std::string name_link(const topology::Fabric& fabric, int link) {
  const topology::Link& l = fabric.link(link);
  return fmt::format("{} -> {}", fabric.node(l.from).name, fabric.node(l.to).name);
}

/// Whether chains of waits lead from one transfer to another.
class WaitOrder {
 public:
  explicit WaitOrder(const Plan& plan) : plan_(plan), first_(plan.transfers.size() + 1, 0) {
    visit_edges([&](uint32_t after, uint32_t) { ++first_[after + 1]; });
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    followers_.resize(first_.back());
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    visit_edges([&](uint32_t after, uint32_t before) { followers_[next[after]++] = before; });
    seen_.assign(plan.transfers.size(), 0);
  }

  bool leads(uint32_t from, uint32_t to) { return search(from, to, plan_.transfers[to].start_ns); }
  /// Finds all that come after a transfer, for reached().
  void reach(uint32_t from) { search(from, Transfer::kNone, INT64_MAX); }
  bool reached(uint32_t transfer) const { return seen_[transfer] == round_; }

 private:
  bool search(uint32_t from, uint32_t to, int64_t until) {
    ++round_;
    stack_.assign(1, from);
    while (!stack_.empty()) {
      const uint32_t at = stack_.back();
      stack_.pop_back();
      for (size_t k = first_[at]; k < first_[at + 1]; ++k) {
        const uint32_t next = followers_[k];
        if (next == to) return true;
        if (seen_[next] == round_ || plan_.transfers[next].start_ns > until) continue;
        seen_[next] = round_;
        stack_.push_back(next);
      }
    }
    return false;
  }

  /// Only tokens: what is forwarded may still be under way when it goes on.
  template <class Visit>
  void visit_edges(Visit&& visit) const {
    for (const Token& token : plan_.tokens) visit(token.after, token.before);
  }

  const Plan& plan_;
  std::vector<size_t> first_;
  std::vector<uint32_t> followers_, stack_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
};

struct Load {
  uint32_t transfer;
  int64_t parts;
};

/// What transfers take of a link's bandwidth, in whole parts: of the least rate, or where others
/// are no multiples of it of a 32nd of that, transfers rounded up and the link down.
struct LinkLoads {
  std::vector<Load> of;
  int64_t whole = 0, least = 0, all = 0;
};

LinkLoads count_parts(const Plan& plan, double bandwidth, const LinkWindow* begin,
                      const LinkWindow* end) {
  constexpr double kTolerance = 1e-6;
  double least = INFINITY;
  for (const LinkWindow* w = begin; w != end; ++w) {
    least = std::min(least, plan.transfers[w->transfer].rate);
  }
  const auto multiple = [&](const LinkWindow& w) {
    const double parts = plan.transfers[w.transfer].rate / least;
    return std::abs(parts - std::round(parts)) <= kTolerance * parts;
  };
  const double unit = std::all_of(begin, end, multiple) ? least : least / 32;
  LinkLoads loads;
  loads.whole = static_cast<int64_t>(bandwidth / unit * (1 + kTolerance));
  loads.least = loads.whole;
  for (const LinkWindow* w = begin; w != end; ++w) {
    const double parts = std::ceil(plan.transfers[w->transfer].rate / unit * (1 - kTolerance));
    loads.of.push_back({w->transfer, std::min(static_cast<int64_t>(parts), loads.whole)});
    loads.all += loads.of.back().parts;
    loads.least = std::min(loads.least, loads.of.back().parts);
  }
  return loads;
}

/// Lays a link's transfers, in the order of their starts, in chains that share the bandwidth out:
/// each takes its part from those that its own tokens name, else from what nobody has had yet, else
/// from any that comes before it. True if that goes, which is as planners think; false says
/// nothing.
bool fill_chains(const Plan& plan, WaitOrder& order, const LinkLoads& loads) {
  std::vector<Load> last;  // of each chain
  std::vector<char> named(plan.transfers.size(), 0);
  int64_t spare = loads.whole;
  for (const Load& load : loads.of) {
    int64_t need = load.parts;
    const auto take = [&](auto&& from) {
      for (size_t i = 0; i < last.size() && need > 0;) {
        if (!from(last[i].transfer)) {
          ++i;
          continue;
        }
        const int64_t taken = std::min(need, last[i].parts);
        need -= taken;
        last[i].parts -= taken;
        if (last[i].parts > 0) continue;
        last[i] = last.back();
        last.pop_back();
      }
    };
    const auto begin =
        std::partition_point(plan.tokens.begin(), plan.tokens.end(),
                             [&](const Token& t) { return t.before < load.transfer; });
    auto end = begin;
    for (; end != plan.tokens.end() && end->before == load.transfer; ++end) named[end->after] = 1;
    take([&](uint32_t t) { return named[t] != 0; });
    for (auto it = begin; it != end; ++it) named[it->after] = 0;
    const int64_t fresh = std::min(need, spare);
    need -= fresh;
    spare -= fresh;
    take([&](uint32_t t) { return order.leads(t, load.transfer); });
    if (need > 0) return false;
    last.push_back(load);
  }
  return true;
}

/// The largest sum of bandwidths of a link's transfers of which none comes before another. By
/// Dilworth's theorem with weights: all of it, less the most that transfers can hand on to later
/// ones (a flow, found by augmenting paths).
class MostAtOnce {
 public:
  MostAtOnce(WaitOrder& order, const std::vector<Load>& loads)
      : loads_(loads), fed_(loads.size()), tried_(loads.size()) {
    for (size_t i = 0; i < loads.size(); ++i) {
      order.reach(loads[i].transfer);
      std::vector<char>& row = before_.emplace_back(loads.size(), 0);
      for (size_t j = i + 1; j < loads.size(); ++j) row[j] = order.reached(loads[j].transfer);
      wants_.push_back(loads[i].parts);
    }
  }

  int64_t parts() {
    int64_t most = 0;
    for (size_t i = 0; i < loads_.size(); ++i) {
      int64_t left = loads_[i].parts;
      for (int64_t moved = 1; left > 0 && moved > 0; left -= moved) {
        std::fill(tried_.begin(), tried_.end(), 0);
        moved = hand_on(i, left);
      }
      most += left;
    }
    return most;
  }

 private:
  struct Feed {
    size_t by;
    int64_t parts;
  };

  int64_t hand_on(size_t i, int64_t parts) {
    for (size_t j = i + 1; j < loads_.size(); ++j) {  // the nearest first: most often its follower
      if (tried_[j] || !before_[i][j]) continue;
      tried_[j] = 1;
      int64_t moved = std::min(parts, wants_[j]);
      wants_[j] -= moved;
      for (size_t k = 0; k < fed_[j].size() && moved == 0; ++k) {
        if (fed_[j][k].parts == 0) continue;
        moved = hand_on(fed_[j][k].by, std::min(parts, fed_[j][k].parts));
        fed_[j][k].parts -= moved;
      }
      if (moved == 0) continue;
      fed_[j].push_back({i, moved});
      return moved;
    }
    return 0;
  }

  const std::vector<Load>& loads_;
  std::vector<std::vector<char>> before_;
  std::vector<int64_t> wants_;
  std::vector<std::vector<Feed>> fed_;
  std::vector<char> tried_;
};

}  // namespace

Status check_link_times(const topology::Fabric& fabric, const Plan& plan, Windows windows) {
  struct Change {
    int64_t time;
    double rate;
    uint32_t transfer;
  };
  std::vector<Change> changes;
  return visit_links(windows, [&](int link, LinkWindow* begin, LinkWindow* end) -> Status {
    changes.clear();
    for (LinkWindow* w = begin; w != end; ++w) {
      const double rate = plan.transfers[w->transfer].rate;
      const int64_t last = w->end_ns - plan.jitter_ns;
      if (last <= w->begin_ns) continue;
      changes.push_back({w->begin_ns, rate, w->transfer});
      changes.push_back({last, -rate, w->transfer});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
      return std::pair(a.time, a.rate) < std::pair(b.time, b.rate);
    });
    double rate = 0;
    for (const Change& change : changes) {
      rate += change.rate;
      if (rate <= fabric.link(link).bandwidth * (1 + 1e-6)) continue;
      return fail(ErrorCode::kInvalidProgram,
                  "link {} carries {:.0f} B/s of {:.0f} at {} ns, when {} comes in",
                  name_link(fabric, link), rate, fabric.link(link).bandwidth, change.time,
                  name_transfer(plan, change.transfer));
    }
    return {};
  });
}

Status check_link_orders(const topology::Fabric& fabric, const Plan& plan, Windows windows,
                         const std::vector<char>& exempt) {
  WaitOrder order(plan);
  return visit_links(windows, [&](int link, LinkWindow* begin, LinkWindow* end) -> Status {
    if (exempt[link]) return {};
    std::sort(begin, end,
              [](const LinkWindow& a, const LinkWindow& b) { return a.transfer < b.transfer; });
    const double bandwidth = fabric.link(link).bandwidth;
    const LinkLoads loads = count_parts(plan, bandwidth, begin, end);
    if (loads.all <= loads.whole) return {};
    if (2 * loads.least > loads.whole) {  // one at a time
      for (LinkWindow* w = begin + 1; w < end; ++w) {
        if (order.leads((w - 1)->transfer, w->transfer)) continue;
        return fail(ErrorCode::kInvalidProgram, "link {}: no tokens order {} and {}",
                    name_link(fabric, link), name_transfer(plan, (w - 1)->transfer),
                    name_transfer(plan, w->transfer));
      }
      return {};
    }
    if (fill_chains(plan, order, loads)) return {};
    const int64_t most = MostAtOnce(order, loads.of).parts();
    if (most <= loads.whole) return {};
    return fail(ErrorCode::kInvalidProgram,
                "link {}: no tokens order transfers of {:.0f} B/s together, of {:.0f}",
                name_link(fabric, link),
                static_cast<double>(most) / static_cast<double>(loads.whole) * bandwidth,
                bandwidth);
  });
}

}  // namespace ibcoll::contention_free
