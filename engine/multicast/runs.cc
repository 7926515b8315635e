#include "engine/multicast/runs.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/multicast/choice.h"

namespace ibcoll {
namespace {

uint64_t previous_at(const std::vector<uint64_t>& all, std::optional<int> id) {
  return all.empty() || !id ? 0 : all[static_cast<size_t>(*id)];
}

/// What follows from an announcement without being told.
Status check_data(const MulticastFacts& facts, std::span<const std::byte> data) {
  if (data.size() == (facts.is_short() ? facts.bytes : 0)) return {};
  return fail(ErrorCode::kMismatch, "a multicast of {} bytes comes with {}", facts.bytes,
              data.size());
}

/// The same of what a leader tells.
Status check_told(const MulticastFacts& facts, std::span<const std::byte> data) {
  IBCOLL_TRY(check_data(facts, data));
  if (facts.is_short() || (facts.pieces > 0 && facts.pieces <= kMaxCut)) return {};
  return fail(ErrorCode::kMismatch, "a multicast in {} pieces", facts.pieces);
}

}  // namespace

MulticastRuns::MulticastRuns(const MulticastServices& services, MulticastOutbox& outbox,
                             MulticastPool& pool,
                             std::function<void(MulticastSend&, const Error*)> own_is_done)
    : services_(services), outbox_(outbox), pool_(pool), own_is_done_(std::move(own_is_done)) {}
MulticastRuns::~MulticastRuns() = default;

MulticastRun* MulticastRuns::find(const MulticastHead& head) {
  const auto run = runs_.find({head.master, head.counter});
  return run == runs_.end() ? nullptr : run->second.get();
}

MulticastRun& MulticastRuns::make(MulticastId id, const MulticastFacts& facts, Rank parent) {
  std::unique_ptr<MulticastRun>& run = runs_[id];
  run = std::make_unique<MulticastRun>();
  run->id = id;
  run->facts = facts;
  run->parent = run->listener = parent;
  run->message.bytes = facts.bytes;
  run->message.tag = facts.tag;
  run->message.master = id.master;
  run->begun_ns = now_ns();
  ++open_;
  return *run;
}

Status MulticastRuns::start(const MulticastAssembly::Whole& message) {
  const MulticastHead& head = message.head;
  IBCOLL_ASSIGN(MulticastStart start,
                decode_start(message.body, head.counter, services_.job.ranks()));
  if (!start.set.contains(services_.me) || find(head) != nullptr)
    return fail(ErrorCode::kMismatch, "rank {} takes this one for the root of a multicast",
                head.from);
  IBCOLL_TRY(check_data(start.facts, message.data));
  Relatives relatives = Relatives::kChildren;
  if (!start.facts.is_short()) {
    IBCOLL_ASSIGN(const MulticastChoice choice,
                  choose_multicast(start.facts, MemberServers(start.set, services_.job)));
    start.facts.algorithm = algorithm_number(choice.algorithm->name);
    start.facts.pieces = choice.pieces;
    relatives = choice.algorithm->spec->relatives;
  }
  MulticastRun& run = make({head.master, head.counter}, start.facts, head.from);
  run.is_root = true;
  run.message.members = start.set.size() + start.facts.with_master;
  IBCOLL_ASSIGN(run.part, MulticastPart::create(root_role(start.set, services_.job, relatives),
                                                services_.job));
  begin(run, previous_at(start.previous, start.set.id_of(services_.me)), message.data,
        start.previous);
  return {};
}

Status MulticastRuns::take_role(const MulticastAssembly::Whole& message) {
  const MulticastHead& head = message.head;
  IBCOLL_ASSIGN(MulticastRoleMessage told,
                decode_role_message(message.body, head.counter, services_.job.ranks()));
  if (!told.role.known.contains(services_.me) || find(head) != nullptr)
    return fail(ErrorCode::kMismatch,
                "rank {} tells this one a role in a multicast that it can't "
                "have",
                head.from);
  IBCOLL_TRY(check_told(told.facts, message.data));
  const uint64_t previous = previous_at(told.previous, told.role.known.id_of(services_.me));
  MulticastRun& run = make({head.master, head.counter}, told.facts, head.from);
  run.message.members = told.role.members + told.facts.with_master;
  run.message.id = told.role.first_id;
  IBCOLL_ASSIGN(run.part, MulticastPart::create(told.role, services_.job));
  begin(run, previous, message.data, told.previous);
  return {};
}

Status MulticastRuns::take_local(const MulticastAssembly::Whole& message) {
  const MulticastHead& head = message.head;
  IBCOLL_ASSIGN(const MulticastLocal told, decode_local(message.body, services_.job.ranks()));
  if (find(head) != nullptr)
    return fail(ErrorCode::kMismatch, "rank {} tells of a multicast twice", head.from);
  IBCOLL_TRY(check_told(told.facts, message.data));
  MulticastRun& run = make({head.master, head.counter}, told.facts, head.from);
  run.local = told;
  run.listener = told.listener;
  run.message.members = told.members + told.facts.with_master;
  run.message.id = told.id;
  begin(run, told.previous, message.data, {});
  return {};
}

void MulticastRuns::send_to_self(MulticastSend& send, const MulticastFacts& facts, MulticastId id,
                                 int members, const std::byte* data) {
  MulticastRun& run = make(id, facts, -1);
  run.own = &send;
  run.message.data = data;  // where it is to be copied from
  run.message.members = members;
  run.message.id = members - 1;
  begin(run, 0, {}, {});  // what it has sent itself before has been announced in its order
}

void MulticastRuns::give_up_own(MulticastId id) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || found->second->complete) return;
  end(*found->second, ErrorCode::kCancelled);
  settle(*found->second);
}

/// Tells those below, at once, and has the message's memory filled.
void MulticastRuns::begin(MulticastRun& run, uint64_t previous, std::span<const std::byte> data,
                          const std::vector<uint64_t>& all_previous) {
  if (run.own == nullptr) ++announced_;
  run.previous = previous;
  run.wanted = order_.announce(run.id.master, run.id.counter, previous);
  run.freed = !run.wanted;
  run.short_data.assign(data.begin(), data.end());
  if (run.part) announce(run, all_previous);
  if (run.parent >= 0 && services_.executor.has_lost(run.parent) && !run.facts.is_short())
    end(run, ErrorCode::kPeerFailed);
  fill(run);
  settle(run);
}

void MulticastRuns::send(Rank to, MulticastMailKind kind, const MulticastRun& run,
                         std::span<const std::byte> body, std::span<const std::byte> data) {
  const MulticastHead head{run.id.counter, run.id.master, services_.me, kind, false, 0};
  outbox_.send(to, head, body, data);
}

void MulticastRuns::announce(MulticastRun& run, const std::vector<uint64_t>& all_previous) {
  const MulticastPart& part = *run.part;
  const RankSet& known = part.role().known;
  const std::vector<int> places = part.children();
  // The one with most below it first.
  for (auto place = places.rbegin(); place != places.rend(); ++place)
    run.children.push_back({part.leader(*place), *place, false, {}});
  for (const Rank rank : part.locals().subspan(1)) run.children.push_back({rank, -1, false, {}});
  run.unacked = static_cast<int>(run.children.size());
  const bool direct =
      run.is_root && acknowledge_directly(services_.job.same_server(run.id.master, services_.me),
                                          part.locals().size() - 1);
  const auto locals = static_cast<int>(part.locals().size());
  int local = 0;
  for (MulticastRun::Child& child : run.children) {
    local += static_cast<int>(child.place < 0);
    if (services_.executor.has_lost(child.rank)) {
      give_up_child(run, child);  // of the master's own server it knows itself, too
      continue;
    }
    if (child.place < 0) {
      MulticastLocal told;
      told.facts = run.facts;
      told.members = part.role().members;
      told.id = run.message.id + local;
      told.servers = part.role().servers;
      told.place = part.role().place;
      told.locals = locals;
      told.local = local;
      told.previous = previous_at(all_previous, known.id_of(child.rank));
      told.listener = direct ? run.id.master : services_.me;
      if (direct) {
        child.acked = true;
        --run.unacked;
      }
      send(child.rank, MulticastMailKind::kLocal, run, encode(told), run.short_data);
      continue;
    }
    MulticastRoleMessage told{run.facts, part.child(child.place), {}};
    if (!all_previous.empty()) {
      told.role.known.for_each([&](Rank rank) {
        told.previous.push_back(previous_at(all_previous, known.id_of(rank)));
      });
    }
    send(child.rank, MulticastMailKind::kRole, run, encode(told, run.id.counter), run.short_data);
  }
}

/// The ranks that get the message through a child, itself included.
RankSet MulticastRuns::below(const MulticastRun& run, const MulticastRun::Child& child) const {
  return child.place < 0 ? RankSet::interval(child.rank, child.rank + 1)
                         : run.part->below(child.place);
}

/// Nobody waits for it any more.
void MulticastRuns::give_up_child(MulticastRun& run, MulticastRun::Child& child) {
  if (child.acked) return;
  child.acked = true;
  --run.unacked;
  below(run, child).for_each([&](Rank rank) { run.missing.push_back(rank); });
}

Status MulticastRuns::acknowledge(const MulticastAssembly::Whole& message) {
  MulticastRun* const run = find(message.head);
  IBCOLL_ASSIGN(const MulticastMissing missing,
                decode_missing(message.body, services_.job.ranks()));
  if (run == nullptr) return {};
  for (MulticastRun::Child& child : run->children) {
    if (child.rank != message.head.from) continue;
    // A leader that lacks it ends the whole distribution, and says so itself.
    if (child.place < 0 && missing.ranks.contains(child.rank)) {
      child.takes_none = true;
      if (run->distribution) run->distribution->lose(child.rank);
    }
    if (child.acked) continue;
    child.acked = true;
    --run->unacked;
    if (!missing.ranks.empty()) run->why = missing.code;
    missing.ranks.for_each([&](Rank rank) { run->missing.push_back(rank); });
  }
  settle(*run);
  return {};
}

Status MulticastRuns::note_late(const MulticastAssembly::Whole& message) {
  IBCOLL_ASSIGN(MulticastMissing late, decode_missing(message.body, services_.job.ranks()));
  if (MulticastRun* const run = find(message.head)) {
    for (MulticastRun::Child& child : run->children) {
      if (child.rank == message.head.from) child.late = std::move(late.ranks);
    }
  }
  return {};
}

void MulticastRuns::drop(const MulticastAssembly::Whole& message) {
  MulticastRun* const run = find(message.head);
  if (run == nullptr || run->acked) return;
  if (run->listener == run->parent) run->listens = false;
  end(*run, ErrorCode::kPeerFailed);
  settle(*run);
}

Status MulticastRuns::skip(const MulticastAssembly::Whole& message) {
  IBCOLL_ASSIGN(const uint64_t previous, decode_previous_one(message.body));
  MulticastRun* const run = find(message.head);
  if (run != nullptr && run->handed_over) return {};
  std::vector<DeliveryOrder::MessageName> ready;
  order_.skip(message.head.master, message.head.counter, previous, ready);
  hand_over(ready);
  if (run != nullptr) {
    run->wanted = false;
    run->freed = true;
    settle(*run);
  }
  return {};
}

/// Once more and more of it are late.
void MulticastRuns::look_after(int64_t now) {
  for (const auto& entry : runs_) {
    MulticastRun& run = *entry.second;
    if (run.acked || now - run.begun_ns < kLateMulticastNs || run.listener < 0 || !run.listens)
      continue;
    std::vector<Rank> late;
    if (!run.complete) late.push_back(services_.me);
    for (const MulticastRun::Child& child : run.children) {
      if (child.acked) continue;
      (child.late.empty() ? below(run, child) : child.late).for_each([&](Rank rank) {
        late.push_back(rank);
      });
    }
    const auto set = RankSet::create(late, services_.job.ranks());
    if (!set || *set == run.told_late) continue;
    run.told_late = *set;
    send(run.listener, MulticastMailKind::kLate, run, encode(MulticastMissing{run.why, *set}));
  }
}

}  // namespace ibcoll
