#include "tests/lockstep/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/lockstep/random.h"
#include "tests/lockstep/run_state.h"

namespace ibcoll::lockstep {
namespace {

/// So many calls are tried after the job is over, to see that each has the same error.
constexpr int kCallsAfterTheEnd = 4;
/// An operator that fails does so once it was used as often.
constexpr uint64_t kFailsAfter = 3;
constexpr const char* kOperatorFailure = "this one fails";

/// What all ranks' errors of a failure have in common; where each of them was follows.
std::string_view common_part(std::string_view text) { return text.substr(0, text.find("; ")); }

bool fails_now(MadeOperator& made) { return made.spec.fails && ++made.combined > kFailsAfter; }

const char* combine_forward(void* target, const void* source, size_t elements, void* made) {
  auto& own = *static_cast<MadeOperator*>(made);
  return fails_now(own) ? kOperatorFailure : combine_own(target, source, elements, &own.spec);
}
const char* combine_backward(void* target, const void* source, size_t elements, void* made) {
  auto& own = *static_cast<MadeOperator*>(made);
  return fails_now(own) ? kOperatorFailure
                        : combine_own_reversed(target, source, elements, &own.spec);
}

}  // namespace

Run::State::State(ibcoll_context* context, const Program& program, Rank me, Runner& runner)
    : context_(context),
      program_(program),
      me_(me),
      runner_(runner),
      causes_(program),
      buffers_(context, runner),
      groups_(program.groups.size(), nullptr),
      graphs_(program.graphs.size(), nullptr),
      spares_(program.groups.size(), nullptr),
      ended_(program.groups.size(), IBCOLL_OK),
      calls_(program.numbers, nullptr) {
  const auto ranks = static_cast<size_t>(program.ranks());
  for (auto* const counts : {&certain_, &uncertain_, &received_}) counts->assign(ranks, 0);
  last_number_.assign(ranks, -1);
  for (const Action& action : program.actions) {
    multicasts_ |= action.kind == ActionKind::kMulticast || action.kind == ActionKind::kReceive ||
                   action.kind == ActionKind::kHandler;
  }
}

Run::State::~State() {
  for (Pending* const pending : all_) delete pending;
}

void Run::State::run() {
  groups_[0] = ibcoll_world(context_);
  make_operators();
  for (const Action& action : program_.actions) {
    if (over_ && after_end_ >= kCallsAfterTheEnd) break;
    step(action);
  }
  close();
}

void Run::State::step(const Action& action) {
  const bool mine = action.rank == me_;
  Pending* const pending = calls_[action.call];
  switch (action.kind) {
    case ActionKind::kMakeGroups:
      return make_groups(action);
    case ActionKind::kFreeGroup:
      return free_group(action.first);
    case ActionKind::kShrink:
      return shrink(action);
    case ActionKind::kMakeGraph:
      return make_graph(action);
    case ActionKind::kFreeGraph:
      return free_graph(action.first);
    case ActionKind::kCall:
      return call(action);
    case ActionKind::kWait:
      return pending != nullptr ? wait(*pending, action.count, action.first != 0) : void();
    case ActionKind::kStart:
      return pending != nullptr ? start(*pending) : void();
    case ActionKind::kFree:
      return pending != nullptr ? drop(*pending) : void();
    case ActionKind::kDisagree:
      return disagree(action);
    default:
      break;
  }
  if (!mine) return;
  switch (action.kind) {
    case ActionKind::kCancel:
      return cancel(action);
    case ActionKind::kCancelGroup:
      return cancel_group(action);
    case ActionKind::kMulticast:
      return multicast(action);
    case ActionKind::kReceive:
      return receive(action);
    case ActionKind::kHandler:
      return set_handler(action.count != 0);
    case ActionKind::kPause:
      return runner_.pause(action.ns);
    case ActionKind::kProgress:
      return progress(action.count);
    case ActionKind::kRefused:
      return refuse(action);
    default:
      return;
  }
}

void Run::State::close() {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i]->action != nullptr) drop(*all_[i]);
  }
  if (multicasts_) program_.options.features.leaves ? leave_at_once() : settle();
  set_handler(false);
  for (ibcoll_request* const request : spares_) expect_ok(ibcoll_call_free(request), "call_free");
  for (size_t i = 0; i < graphs_.size(); ++i) free_graph(static_cast<uint32_t>(i));
  for (size_t i = 1; i < groups_.size(); ++i) free_group(static_cast<uint32_t>(i));
  for (const MadeOperator& made : operators_)
    expect_ok(ibcoll_operator_free(context_, made.op), "operator_free");
  operators_.clear();
  for (const Guarded& buffer : watched_) {
    if (!buffer.is_filled())
      violation("memory of a call that had ended early was written afterwards");
  }
  watched_.clear();
  expect_ok(buffers_.close(), "giving memory back");
}

void Run::State::make_operators() {
  operators_.reserve(program_.operators.size());  // the library is given addresses of them
  for (const OperatorSpec& spec : program_.operators) {
    MadeOperator& made = operators_.emplace_back();
    made.spec = spec;
    ibcoll_operator_description description = IBCOLL_OPERATOR_DESCRIPTION_INIT;
    description.element_bytes = spec.element_bytes;
    if (spec.direction != OperatorSpec::Direction::kReversed) description.combine = combine_forward;
    if (spec.direction != OperatorSpec::Direction::kForward)
      description.combine_reversed = combine_backward;
    description.context = &made;
    description.identifier = spec.identifier;
    description.commutes = spec.kind == OperatorSpec::Kind::kAdd ? 1 : 0;
    if (!expect_ok(ibcoll_operator_create(context_, &description, &made.op), "operator_create"))
      give_up("an operator");
  }
}

void Run::State::make_groups(const Action& action) {
  order_.clear();
  for (uint32_t i = 0; i < action.count; ++i) order_.push_back(action.first + i);
  Random random(drawn({program_.seed, action.number, static_cast<uint64_t>(me_)}));
  random.shuffle(order_);
  for (const uint32_t i : order_) {
    const GroupSpec& spec = program_.groups[i];
    uint64_t members = 0;
    for (const Rank rank : spec.members) members |= uint64_t{1} << rank;
    if ((members >> me_ & 1) == 0) continue;
    const ibcoll_group_options options{sizeof options, spec.id};
    // A bitmap says as much where they ascend.
    const bool by_bitmap =
        random.one_in(3) && std::is_sorted(spec.members.begin(), spec.members.end());
    const ibcoll_status status =
        by_bitmap ? ibcoll_group_create_from_bitmap(context_, &members, 1, &options, &groups_[i])
                  : ibcoll_group_create_with(context_, spec.members.data(),
                                             static_cast<int>(spec.members.size()), &options,
                                             &groups_[i]);
    runner_.finished(Operation::kMakeGroup, status);
    if (status == IBCOLL_OK) continue;
    groups_[i] = nullptr;
    if (status == IBCOLL_ERR_PEER_FAILED && ibcoll_last_error_scope() != IBCOLL_SCOPE_JOB) {
      if (const std::string wrong = causes_.check_group(i, outcome_of(status), runner_.faults());
          !wrong.empty())
        violation(action, wrong);
      continue;
    }
    // A rank that knows of a death by its end of an earlier group alone may say that one's end.
    if (status == IBCOLL_ERR_INVALID && (runner_.faults().dead & members) != 0 &&
        outcome_of(status).text.find("was ended before its time") != std::string_view::npos)
      continue;
    if (!expect_ok(status, "group_create")) give_up("a group");
  }
}

void Run::State::free_group(uint32_t which) {
  if (groups_[which] == nullptr || which == 0) return;
  expect_ok(ibcoll_group_free(groups_[which]), "group_free");
  groups_[which] = nullptr;
}

void Run::State::make_graph(const Action& action) {
  const GraphSpec& spec = program_.graphs[action.first];
  const std::vector<Rank>& members = program_.groups[spec.group].members;
  const auto found = std::find(members.begin(), members.end(), me_);
  if (found == members.end() || groups_[spec.group] == nullptr || over_) return;
  const auto id = static_cast<size_t>(found - members.begin());
  const std::vector<int>& from = spec.sources[id];
  const std::vector<int>& to = spec.destinations[id];
  const bool must_fail = ended_[spec.group] != IBCOLL_OK;
  const ibcoll_status status =
      ibcoll_graph_create(groups_[spec.group], static_cast<int>(from.size()), from.data(),
                          static_cast<int>(to.size()), to.data(), &graphs_[action.first]);
  runner_.finished(Operation::kMakeGraph, status);
  if (status == IBCOLL_OK) {
    if (must_fail) violation(action, "a graph was made on a group that had ended");
    return;
  }
  graphs_[action.first] = nullptr;
  Action on_group;
  on_group.number = action.number;
  on_group.kind = action.kind;
  on_group.first = action.first;
  on_group.spec.group = spec.group;
  failed(on_group, status);
}

void Run::State::free_graph(uint32_t which) {
  if (graphs_[which] == nullptr) return;
  expect_ok(ibcoll_graph_free(graphs_[which]), "graph_free");
  graphs_[which] = nullptr;
}

void Run::State::cancel_group(const Action& action) {
  if (groups_[action.first] == nullptr) return;
  runner_.finished(Operation::kCancel, IBCOLL_OK);
  if (!expect_ok(ibcoll_group_cancel(groups_[action.first]), "group_cancel")) return;
  if (ended_[action.first] == IBCOLL_OK) ended_[action.first] = IBCOLL_ERR_CANCELLED;
  if (ibcoll_group_status(groups_[action.first]) == IBCOLL_OK && !over_)
    violation(action, "the group's status is good after it was cancelled");
}

void Run::State::shrink(const Action& action) {
  ibcoll_group* left = nullptr;
  const ibcoll_status made = ibcoll_group_shrink(groups_[0], nullptr, &left);
  runner_.finished(Operation::kShrink, made);
  if (over_) ++after_end_;
  if (made != IBCOLL_OK) {
    const Outcome outcome = outcome_of(made);
    if (outcome.scope == IBCOLL_SCOPE_JOB) return job_over(outcome, &action);
    if (!is_untold(outcome)) violation(action, std::string(outcome.text));
    return;
  }
  if (over_) violation(action, "a group was made after the job's end");
  std::vector<Rank> members(static_cast<size_t>(ibcoll_group_size(left)), -1);
  const ibcoll_status told = ibcoll_allgather(left, &me_, members.data(), sizeof(Rank), nullptr);
  std::string wrong;
  if (told == IBCOLL_OK) {
    wrong = check_survivors(members);
  } else if (const Outcome outcome = outcome_of(told); outcome.scope == IBCOLL_SCOPE_JOB) {
    job_over(outcome, &action);
  } else if (!is_untold(outcome)) {  // one of them has died since
    wrong = causes_.check_group(0, outcome, runner_.faults());
  }
  if (!wrong.empty()) violation(action, wrong);
  expect_ok(ibcoll_group_free(left), "group_free");
}

std::string Run::State::check_survivors(const std::vector<Rank>& members) {
  const Faults faults = runner_.faults();
  // Whoever was refused something has given up, or the others have because of that.
  const uint64_t gone = faults.refused() ? ~uint64_t{0} : faults.dead;
  Rank next = 0;
  for (const Rank rank : members) {
    if (rank < next || rank >= program_.ranks())
      return fmt::format("rank {} comes after rank {} among the survivors", rank, next - 1);
    for (; next < rank; ++next)
      if ((gone >> next & 1) == 0) return fmt::format("rank {} was left out and lives", next);
    ++next;
  }
  for (; next < program_.ranks(); ++next)
    if ((gone >> next & 1) == 0) return fmt::format("rank {} was left out and lives", next);
  return {};
}

void Run::State::progress(uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; ++i) {
    if (!expect_ok(ibcoll_progress(context_, nullptr), "progress")) return;
  }
}

void Run::State::give_up(const char* what) {
  if (over_) return;
  ibcoll_abort(context_, fmt::format("no memory for {}", what).c_str());
  expect_ok(ibcoll_progress(context_, nullptr), "progress");
}

void Run::State::failed(const Action& action, ibcoll_status status) {
  const Outcome outcome = outcome_of(status);
  if (outcome.scope == IBCOLL_SCOPE_JOB) return job_over(outcome, &action);
  const std::string wrong =
      is_untold(outcome) ? "" : causes_.check(action, outcome, runner_.faults());
  if (!wrong.empty()) violation(action, wrong);
  if (action.kind == ActionKind::kMulticast || action.spec.on_set ||
      outcome.scope != IBCOLL_SCOPE_GROUP)
    return;
  const uint16_t group = action.spec.group;
  if (ended_[group] == IBCOLL_OK) ended_[group] = status;
  if (groups_[group] == nullptr) return;
  const ibcoll_status now = ibcoll_group_status(groups_[group]);
  if (now == status || over_) return;
  const Outcome later = outcome_of(now);
  if (now != IBCOLL_OK && later.scope == IBCOLL_SCOPE_JOB) return job_over(later, &action);
  violation(action, fmt::format("a call gives status {}, then the group {}",
                                static_cast<int>(status), static_cast<int>(now)));
}

void Run::State::job_over(const Outcome& outcome, const Action* action) {
  if (is_untold(outcome)) return;  // a later call tells
  const std::string common(common_part(outcome.text));
  if (over_) {
    if (outcome.status == over_status_ && common == over_text_) return;
    violation(fmt::format("the job was over with status {}, {}; later a call gives {}, {}",
                          static_cast<int>(over_status_), over_text_,
                          static_cast<int>(outcome.status), outcome.text));
    return;
  }
  over_ = true;
  over_status_ = outcome.status;
  over_text_ = common;
  const std::string wrong = causes_.check_job(outcome, runner_.faults());
  if (!wrong.empty()) action != nullptr ? violation(*action, wrong) : violation(wrong);
  runner_.over(outcome.status, over_text_);
}

bool Run::State::expect_ok(ibcoll_status status, const char* what) {
  if (status == IBCOLL_OK) return true;
  const Outcome outcome = outcome_of(status);
  if (outcome.scope == IBCOLL_SCOPE_JOB) {
    job_over(outcome, nullptr);
  } else if (!(outcome.status == IBCOLL_ERR_NO_MEMORY && runner_.faults().memory_failed) &&
             !(outcome.status == IBCOLL_ERR_SYSTEM && runner_.faults().call_failed)) {
    violation(fmt::format("{} gives status {}: {}", what, static_cast<int>(status), outcome.text));
  }
  return false;
}

void Run::State::violation(const Action& action, const std::string& what) {
  runner_.violation(fmt::format("rank {}, {}: {}", me_, to_string(program_, action), what));
}

void Run::State::violation(const std::string& what) {
  runner_.violation(fmt::format("rank {}: {}", me_, what));
}

Run::Run(ibcoll_context* context, const Program& program, Rank me, Runner& runner)
    : state_(std::make_unique<State>(context, program, me, runner)) {}
Run::~Run() = default;
void Run::run() { state_->run(); }

}  // namespace ibcoll::lockstep
