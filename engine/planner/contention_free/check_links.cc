#include "engine/planner/contention_free/check_links.h"

#include <algorithm>
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
class Order {
 public:
  explicit Order(const Plan& plan) : plan_(plan), first_(plan.transfers.size() + 1, 0) {
    visit_edges([&](uint32_t after, uint32_t) { ++first_[after + 1]; });
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    followers_.resize(first_.back());
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    visit_edges([&](uint32_t after, uint32_t before) { followers_[next[after]++] = before; });
    seen_.assign(plan.transfers.size(), 0);
  }

  bool leads(uint32_t from, uint32_t to) {
    ++round_;
    stack_.assign(1, from);
    const int64_t until = plan_.transfers[to].start_ns;
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

 private:
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

/// Lays transfers of a link, in the order of their starts, each of as many units as it takes, in
/// chains: behind one that its own tokens name, else in a new one, else behind any that comes
/// before. True if `slots` chains do, which is as planners think; false says nothing.
bool fill_chains(const Plan& plan, Order& order, const std::vector<uint32_t>& units, size_t slots) {
  std::vector<uint32_t> last;  // of each chain
  std::vector<char> named(plan.transfers.size(), 0);
  for (const uint32_t unit : units) {
    const auto begin = std::partition_point(plan.tokens.begin(), plan.tokens.end(),
                                            [&](const Token& t) { return t.before < unit; });
    auto end = begin;
    for (; end != plan.tokens.end() && end->before == unit; ++end) named[end->after] = 1;
    auto chain = std::find_if(last.begin(), last.end(), [&](uint32_t t) { return named[t] != 0; });
    for (auto it = begin; it != end; ++it) named[it->after] = 0;
    if (chain == last.end() && last.size() < slots) {
      last.push_back(unit);
      continue;
    }
    if (chain == last.end()) {
      chain = std::find_if(last.begin(), last.end(),
                           [&](uint32_t t) { return t != unit && order.leads(t, unit); });
    }
    if (chain == last.end()) return false;
    *chain = unit;
  }
  return true;
}

/// Transfers of a link, each as many units of the least rate as it takes: can they be laid in
/// `slots` chains? Then (Dilworth) no more than so many are ever unordered. Kuhn's matching of each
/// unit to the one that follows it in its chain.
class Chains {
 public:
  Chains(Order& order, std::vector<uint32_t> units) : order_(order), units_(std::move(units)) {
    match_.assign(units_.size(), -1);
  }

  /// The least number of chains.
  size_t count() {
    size_t matched = 0;
    for (size_t i = 0; i < units_.size(); ++i) {
      tried_.assign(units_.size(), 0);
      matched += extend(i);
    }
    return units_.size() - matched;
  }

 private:
  bool extend(size_t i) {
    // The nearest first: most often the follower by tokens.
    for (size_t j = i + 1; j < units_.size(); ++j) {
      if (tried_[j] || units_[i] == units_[j] || !ordered(i, j)) continue;
      tried_[j] = 1;
      if (match_[j] < 0 || extend(static_cast<size_t>(match_[j]))) {
        match_[j] = static_cast<int>(i);
        return true;
      }
    }
    return false;
  }
  bool ordered(size_t i, size_t j) { return order_.leads(units_[i], units_[j]); }

  Order& order_;
  const std::vector<uint32_t> units_;
  std::vector<int> match_;
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
  Order order(plan);
  return visit_links(windows, [&](int link, LinkWindow* begin, LinkWindow* end) -> Status {
    if (exempt[link]) return {};
    std::sort(begin, end,
              [](const LinkWindow& a, const LinkWindow& b) { return a.transfer < b.transfer; });
    double least = 0, all = 0;
    for (LinkWindow* w = begin; w != end; ++w) {
      const double rate = plan.transfers[w->transfer].rate;
      least = w == begin ? rate : std::min(least, rate);
      all += rate;
    }
    const double bandwidth = fabric.link(link).bandwidth * (1 + 1e-9);
    if (all <= bandwidth) return {};
    const auto slots = static_cast<size_t>(bandwidth / least);
    if (slots == 1) {
      for (LinkWindow* w = begin + 1; w < end; ++w) {
        if (order.leads((w - 1)->transfer, w->transfer)) continue;
        return fail(ErrorCode::kInvalidProgram, "link {}: no tokens order {} and {}",
                    name_link(fabric, link), name_transfer(plan, (w - 1)->transfer),
                    name_transfer(plan, w->transfer));
      }
      return {};
    }
    std::vector<uint32_t> units;
    for (LinkWindow* w = begin; w != end; ++w) {
      const double parts = plan.transfers[w->transfer].rate / least;
      auto whole = static_cast<size_t>(parts);
      if (parts > static_cast<double>(whole) + 1e-6) ++whole;
      units.insert(units.end(), std::min(whole, slots), w->transfer);
    }
    if (fill_chains(plan, order, units, slots)) return {};
    const size_t chains = Chains(order, units).count();
    if (chains <= slots) return {};
    return fail(ErrorCode::kInvalidProgram,
                "link {}: no tokens order {} transfers at once, of {:.0f} B/s or more, on {:.0f}",
                name_link(fabric, link), chains, least, fabric.link(link).bandwidth);
  });
}

}  // namespace ibcoll::contention_free
