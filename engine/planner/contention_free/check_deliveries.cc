#include "engine/planner/contention_free/check_deliveries.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "engine/planner/contention_free/check_links.h"

namespace ibcoll::contention_free {

namespace {

constexpr uint32_t kNone = Transfer::kNone;

class Deliveries {
 public:
  Deliveries(const PlanRequest& request, const Plan& plan) : request_(request), plan_(plan) {}

  Status check() const {
    return plan_.kind == Kind::kReduce ? check_reduction() : check_delivery();
  }

 private:
  template <class... Args>
  tl::unexpected<Error> wrong(uint32_t i, fmt::format_string<Args...> format,
                              Args&&... args) const {
    return fail(ErrorCode::kInvalidProgram, "{}: {}", name_transfer(plan_, i),
                fmt::format(format, std::forward<Args>(args)...));
  }

  /// All kinds but reduce: who has a message passes it to who needs it.
  Status check_delivery() const {
    using Place = std::tuple<int, int, int>;  // message, server
    std::vector<std::pair<Place, uint32_t>> arrivals;
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      arrivals.push_back({{t.origin, t.target, t.to}, i});
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
      const uint32_t source = t.from == t.origin ? kNone : arrived({t.origin, t.target, t.from});
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
      const bool needed = t.target == kEveryone || t.target == t.to;
      if (!needed && !passed_on[i]) return wrong(i, "ends where nobody needs it");
    }
    const auto delivered = [&](int origin, int target, int server) -> Status {
      if (asked_bytes(request_, origin, target) == 0 || server == origin) return {};
      if (arrived({origin, target, server}) != kNone) return {};
      return fail(ErrorCode::kInvalidProgram, "the message from server {} never reaches server {}",
                  origin, server);
    };
    for (int origin = 0; origin < plan_.servers; ++origin) {
      for (int server = 0; server < plan_.servers; ++server) {
        const bool many = plan_.kind == Kind::kAllgather || plan_.kind == Kind::kBcast;
        IBCOLL_TRY(delivered(origin, many ? kEveryone : server, server));
      }
    }
    return {};
  }

  /// Reduce: everybody but the root sends once, and all ways lead to the root.
  Status check_reduction() const {
    std::vector<uint32_t> sends(plan_.servers, kNone), receives(plan_.servers, kNone);
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      if (t.from == plan_.root) return wrong(i, "the root sends");
      if (sends[t.from] != kNone) {
        return wrong(i, "its sender's part is counted twice, also by {}",
                     name_transfer(plan_, sends[t.from]));
      }
      sends[t.from] = i;
      receives[t.to] = i;
    }
    if (asked_bytes(request_, kEveryone, plan_.root) == 0) return {};
    for (uint32_t i = 0; i < plan_.transfers.size(); ++i) {
      const Transfer& t = plan_.transfers[i];
      if (t.forwards == kNone && receives[t.from] != kNone) {
        return wrong(i, "does not wait for what its sender receives");
      }
      if (t.forwards != kNone &&
          (t.forwards >= plan_.transfers.size() || plan_.transfers[t.forwards].to != t.from)) {
        return wrong(i, "forwards transfer {}, which is not for its sender", t.forwards);
      }
    }
    for (int server = 0; server < plan_.servers; ++server) {
      int at = server, steps = 0;
      while (at != plan_.root && sends[at] != kNone && steps++ < plan_.servers) {
        at = plan_.transfers[sends[at]].to;
      }
      if (at == plan_.root) continue;
      return fail(ErrorCode::kInvalidProgram, "server {}'s part never reaches the root", server);
    }
    return {};
  }

  const PlanRequest& request_;
  const Plan& plan_;
};

}  // namespace

uint64_t asked_bytes(const PlanRequest& request, int origin, int target) {
  const int servers = static_cast<int>(request.server_ranks.size()), root = request.root;
  const auto ranks = [&](int server) {
    return static_cast<uint64_t>(request.server_ranks[server]);
  };
  const auto of = [&](int server) {
    return request.message_bytes.empty() ? request.block_bytes * ranks(server)
                                         : request.message_bytes[server];
  };
  const auto valid = [&](int server) { return server >= 0 && server < servers; };
  if (origin == target || servers < 2) return 0;
  switch (request.kind) {
    case Kind::kGather:
      return target == root && valid(origin) ? of(origin) : 0;
    case Kind::kScatter:
      return origin == root && valid(target) ? of(target) : 0;
    case Kind::kAlltoall:
      if (!valid(origin) || !valid(target)) return 0;
      return request.message_bytes.empty()
                 ? request.block_bytes * ranks(origin) * ranks(target)
                 : request.message_bytes[static_cast<size_t>(origin) * servers + target];
    case Kind::kAllgather:
      return valid(origin) && target == kEveryone ? of(origin) : 0;
    case Kind::kBcast:
      return origin == root && target == kEveryone ? request.block_bytes : 0;
    case Kind::kReduce:
      return origin == kEveryone && target == root ? request.block_bytes : 0;
  }
  return 0;
}

Status check_deliveries(const PlanRequest& request, const Plan& plan) {
  return Deliveries(request, plan).check();
}

}  // namespace ibcoll::contention_free
