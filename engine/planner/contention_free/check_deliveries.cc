#include "engine/planner/contention_free/check_deliveries.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "engine/planner/contention_free/check_links.h"
#include "engine/schedule/program.h"

namespace ibcoll::contention_free {

namespace {

class Deliveries {
 public:
  Deliveries(const PlanInputs& inputs, const Plan& plan)
      : inputs_(inputs), plan_(plan), sums_(plan.collective, plan.servers) {}

  Status check() const {
    if (sums_.count() > 0) IBCOLL_TRY(check_reduction());
    return check_delivery();
  }

 private:
  template <class... Args>
  tl::unexpected<Error> wrong(uint32_t i, fmt::format_string<Args...> format,
                              Args&&... args) const {
    return fail(ErrorCode::kInvalidProgram, "{}: {}", name_transfer(plan_, i),
                fmt::format(format, std::forward<Args>(args)...));
  }

  /// Of what is not combined on its way: who has a message passes it to who needs it.
  Status check_delivery() const {
    using Place = std::tuple<int, int, int, int>;  // message, part, server
    std::vector<std::pair<Place, uint32_t>> arrivals;
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      if (t.origin == kEveryone) continue;
      arrivals.push_back({{t.origin, t.target, t.part, t.to}, i});
      if (t.to == t.origin) return wrong(i, "goes back to where it came from");
    }
    std::sort(arrivals.begin(), arrivals.end());
    for (size_t i = 1; i < arrivals.size(); ++i) {
      if (arrivals[i].first != arrivals[i - 1].first) continue;
      return wrong(arrivals[i].second, "its receiver has the message twice, also by {}",
                   name_transfer(plan_, arrivals[i - 1].second));
    }
    const auto arrived = [&](const Place& place) {
      const auto at =
          std::lower_bound(arrivals.begin(), arrivals.end(), std::pair<Place, uint32_t>{place, 0});
      return at != arrivals.end() && at->first == place ? at->second : kNone;
    };
    std::vector<char> passed_on(plan_.transfers.size(), 0);
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      if (sums_.awaited_by(t) != Sums::kNone) continue;
      const uint32_t source =
          t.from == t.origin ? kNone : arrived({t.origin, t.target, t.part, t.from});
      if (t.from != t.origin && source == kNone)
        return wrong(i, "its sender never has the message");
      if (t.forwards != source) {
        return wrong(i, "forwards transfer {}, but its sender has the message by {}",
                     static_cast<int64_t>(t.forwards), static_cast<int64_t>(source));
      }
      if (source != kNone) passed_on[source] = 1;
    }
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      const bool needed = t.origin == kEveryone || t.target == kEveryone || t.target == t.to;
      if (!needed && !passed_on[i]) return wrong(i, "ends where nobody needs it");
    }
    const auto delivered = [&](int origin, int target, int server) -> Status {
      if (asked_bytes(inputs_, origin, target) == 0 || server == origin) return {};
      const uint64_t bytes = asked_bytes(inputs_, origin, target);
      for (int part = 0; part < plan_.parts; ++part) {
        if (part_bytes(bytes, plan_.parts, part) == 0) continue;
        if (arrived({origin, target, part, server}) != kNone) continue;
        return fail(ErrorCode::kInvalidProgram,
                    "the message from server {} never reaches server {}", origin, server);
      }
      return {};
    };
    for (int origin = 0; origin < plan_.servers; ++origin) {
      for (int server = 0; server < plan_.servers; ++server) {
        IBCOLL_TRY(delivered(origin, spreads(plan_.collective) ? kEveryone : server, server));
      }
    }
    return {};
  }

  /// Of each message that is combined: everybody but its target sends once, all ways lead to the
  /// target, and nothing goes on before all of it is there.
  Status check_reduction() const {
    std::vector<uint32_t> sends(sums_.count(), kNone), receives(sums_.count(), kNone);
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      if (t.origin != kEveryone) continue;
      if (t.from == t.target) return wrong(i, "its target sends");
      uint32_t& sent = sends[sums_.awaited_by(t)];
      if (sent != kNone) {
        return wrong(i, "its sender's part is counted twice, also by {}",
                     name_transfer(plan_, sent));
      }
      sent = i;
      receives[sums_.fed_by(t)] = i;
    }
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      const size_t sum = sums_.awaited_by(t);
      if (sum == Sums::kNone) continue;
      if (t.forwards == kNone && receives[sum] != kNone) {
        return wrong(i, "does not wait for what its sender receives");
      }
      if (t.forwards != kNone && (t.forwards >= plan_.transfers.size() ||
                                  sums_.fed_by(plan_.transfers[t.forwards]) != sum)) {
        return wrong(i, "forwards transfer {}, which is not for its sender", t.forwards);
      }
    }
    for (int target = 0; target < plan_.servers; ++target) {
      if (asked_bytes(inputs_, kEveryone, target) > 0) IBCOLL_TRY(check_ways(target, sends));
    }
    return {};
  }

  /// Everybody's part of a message reaches its target.
  Status check_ways(int target, const std::vector<uint32_t>& sends) const {
    for (int server = 0; server < plan_.servers; ++server) {
      int at = server, steps = 0;
      for (uint32_t next; at != target && steps++ < plan_.servers; at = plan_.transfers[next].to) {
        next = sends[sums_.at(target, at)];
        if (next == kNone) break;
      }
      if (at == target) continue;
      return fail(ErrorCode::kInvalidProgram, "server {}'s part never reaches server {}", server,
                  target);
    }
    return {};
  }

  const PlanInputs& inputs_;
  const Plan& plan_;
  const Sums sums_;
};

}  // namespace

uint64_t part_bytes(uint64_t bytes, int parts, int part) {
  return cut_bytes(bytes, static_cast<uint32_t>(parts), static_cast<uint32_t>(part), 1);
}

uint64_t asked_bytes(const PlanInputs& inputs, int origin, int target) {
  const int servers = static_cast<int>(inputs.server_ranks.size()), root = inputs.root;
  const auto ranks = [&](int server) { return static_cast<uint64_t>(inputs.server_ranks[server]); };
  const auto of = [&](int server) {
    return inputs.message_bytes.empty() ? inputs.block_bytes * ranks(server)
                                        : inputs.message_bytes[server];
  };
  const auto valid = [&](int server) { return server >= 0 && server < servers; };
  if (origin == target || servers < 2) return 0;
  switch (inputs.collective) {
    case Collective::kGather:
      return target == root && valid(origin) ? of(origin) : 0;
    case Collective::kScatter:
      return origin == root && valid(target) ? of(target) : 0;
    case Collective::kAlltoall:
      if (!valid(origin) || !valid(target)) return 0;
      return inputs.message_bytes.empty()
                 ? inputs.block_bytes * ranks(origin) * ranks(target)
                 : inputs.message_bytes[static_cast<size_t>(origin) * servers + target];
    case Collective::kAllgather:
      return valid(origin) && target == kEveryone ? of(origin) : 0;
    case Collective::kBcast:
      return origin == root && target == kEveryone ? inputs.block_bytes : 0;
    case Collective::kReduce:
      return origin == kEveryone && target == root ? inputs.block_bytes : 0;
    case Collective::kReduceScatter:
      return origin == kEveryone && valid(target) ? of(target) : 0;
    case Collective::kAllreduce: {
      const bool asked = origin == kEveryone ? valid(target) : valid(origin) && target == kEveryone;
      const auto slices = static_cast<uint64_t>(servers);
      return asked ? inputs.block_bytes / slices + (inputs.block_bytes % slices > 0 ? 1 : 0) : 0;
    }
    default:  // is not planned
      return 0;
  }
}

Status check_deliveries(const PlanInputs& inputs, const Plan& plan) {
  return Deliveries(inputs, plan).check();
}

}  // namespace ibcoll::contention_free
