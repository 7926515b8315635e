#include "tests/lockstep/program.h"

#include <fmt/format.h>

#include "tests/lockstep/model.h"

namespace ibcoll::lockstep {
namespace {

constexpr const char* kNames[] = {"alltoall",
                                  "alltoallv",
                                  "allgather",
                                  "allgatherv",
                                  "gather",
                                  "gatherv",
                                  "scatter",
                                  "scatterv",
                                  "bcast",
                                  "reduce",
                                  "barrier",
                                  "allreduce",
                                  "reduce_scatter",
                                  "reduce_scatter_block",
                                  "scan",
                                  "exscan",
                                  "alltoallw",
                                  "neighbor_allgather",
                                  "neighbor_allgatherv",
                                  "neighbor_alltoall",
                                  "neighbor_alltoallv",
                                  "neighbor_alltoallw",
                                  "exchange_counts",
                                  "exchange_root_counts",
                                  "make_graph",
                                  "multicast",
                                  "receive",
                                  "make_group",
                                  "shrink",
                                  "cancel",
                                  "refused",
                                  "disagree"};
static_assert(std::size(kNames) == kOperations);

std::string text_of(const Program& program, const CallSpec& spec) {
  std::string text = to_string(spec.operation);
  text += spec.on_set ? fmt::format(" on set {:#x} tag {}", spec.set, spec.tag)
                      : fmt::format(" on group {}", spec.group);
  if (reduces(spec.operation)) {
    text += fmt::format(" {} elements", spec.elements);
    text += spec.own_operator >= 0 ? fmt::format(" by own operator {}", spec.own_operator)
                                   : fmt::format(" type {} op {}", static_cast<int>(spec.type),
                                                 static_cast<int>(spec.op));
    if (spec.ordered) text += " ordered";
  } else {
    text += fmt::format(" {} B", spec.bytes);
  }
  if (is_of_neighbors(spec.operation)) text += fmt::format(" graph {}", spec.graph);
  text += fmt::format(" root {}", spec.root);
  if (spec.in_place) text += " in place";
  if (spec.displaced) text += " displaced";
  if (spec.layout != 0) text += fmt::format(" as in call {}", spec.layout - 1);
  if (spec.strided_send) text += " strided send";
  if (spec.strided_recv) text += " strided receive";
  if (spec.algorithm >= 0)
    text += " by " + program.options.algorithms[static_cast<size_t>(spec.algorithm)].name;
  if (spec.pacing != 0) text += fmt::format(" pacing {}", kPacings[spec.pacing - 1]);
  if (spec.pieces != 0) text += fmt::format(" in {} pieces", spec.pieces);
  static constexpr const char* kMemories[] = {"", " shared memory", " registered", " mixed memory"};
  text += kMemories[static_cast<int>(spec.memory)];
  static constexpr const char* kModes[] = {", blocking", "", ", persistent"};
  text += kModes[static_cast<int>(spec.mode)];
  if (spec.deadline_us != 0)
    text += fmt::format(", deadline of {} {} us", spec.deadline_of, spec.deadline_us);
  return text;
}

}  // namespace

const char* to_string(Operation operation) { return kNames[static_cast<int>(operation)]; }

bool reduces(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kAllreduce ||
         (operation >= Operation::kReduceScatter && operation <= Operation::kExscan);
}

bool is_of_neighbors(Operation operation) {
  return operation >= Operation::kNeighborAllgather && operation <= Operation::kNeighborAlltoallw;
}

int Program::ranks() const {
  int all = 0;
  for (const int here : options.layout) all += here;
  return all;
}

std::string to_string(const Program& program, const Action& action) {
  const auto head = [&](std::string_view what) {
    return fmt::format("{:4} {}", action.number, what);
  };
  switch (action.kind) {
    case ActionKind::kMakeGroups: {
      std::string text = head("make groups");
      for (uint32_t i = action.first; i < action.first + action.count; ++i) {
        text += fmt::format(" {} = [", i);
        for (const Rank rank : program.groups[i].members) text += fmt::format(" {}", rank);
        text += fmt::format(" ] id {:#x}{}", program.groups[i].id,
                            program.groups[i].mortal ? " mortal" : "");
      }
      return text;
    }
    case ActionKind::kFreeGroup:
      return head(fmt::format("free group {}", action.first));
    case ActionKind::kShrink:
      return head("shrink all");
    case ActionKind::kMakeGraph:
      return head(fmt::format("make graph {} of group {}", action.first,
                              program.graphs[action.first].group));
    case ActionKind::kFreeGraph:
      return head(fmt::format("free graph {}", action.first));
    case ActionKind::kCall:
      return head(text_of(program, action.spec));
    case ActionKind::kWait:
      return head(fmt::format("wait for {} after {} tests", action.call, action.count));
    case ActionKind::kStart:
      return head(fmt::format("start {} again", action.call));
    case ActionKind::kFree:
      return head(fmt::format("free {}", action.call));
    case ActionKind::kCancel:
      return head(fmt::format("rank {} cancels {}", action.rank, action.call));
    case ActionKind::kCancelGroup:
      return head(fmt::format("rank {} cancels group {}", action.rank, action.first));
    case ActionKind::kMulticast:
      return head(fmt::format("rank {} sends {} B to {:#x}{}{}{}", action.multicast.master,
                              action.multicast.bytes, action.multicast.members,
                              action.multicast.acknowledged ? ", acknowledged" : "",
                              action.multicast.waits ? ", waits" : "",
                              action.multicast.deadline_us == 0
                                  ? std::string()
                                  : fmt::format(", deadline {} us", action.multicast.deadline_us)));
    case ActionKind::kReceive:
      return head(fmt::format("rank {} takes {} messages, waits {} ns", action.rank, action.count,
                              action.ns));
    case ActionKind::kHandler:
      return head(
          fmt::format("rank {} has {} handler", action.rank, action.count != 0 ? "a" : "no"));
    case ActionKind::kPause:
      return head(fmt::format("rank {} computes for {} ns", action.rank, action.ns));
    case ActionKind::kProgress:
      return head(fmt::format("rank {} makes {} rounds of progress", action.rank, action.count));
    case ActionKind::kRefused:
      return head(fmt::format("rank {} is refused case {}", action.rank, action.first));
    case ActionKind::kDisagree:
      return head(fmt::format("ranks disagree on {}, case {}", text_of(program, action.spec),
                              action.first));
  }
  return {};
}

std::string to_string(const Program& program) {
  std::string text = fmt::format("program {:#x}, layout", program.seed);
  for (const int ranks : program.options.layout) text += fmt::format(" {}", ranks);
  text += '\n';
  for (size_t i = 0; i < program.operators.size(); ++i) {
    const OperatorSpec& own = program.operators[i];
    text +=
        fmt::format("     operator {}: {} of {} B, direction {}, identifier {}{}\n", i,
                    own.kind == OperatorSpec::Kind::kAdd ? "add" : "affine", own.element_bytes,
                    static_cast<int>(own.direction), own.identifier, own.fails ? ", fails" : "");
  }
  for (const Action& action : program.actions) text += to_string(program, action) + '\n';
  return text;
}

}  // namespace ibcoll::lockstep
