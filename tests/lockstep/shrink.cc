#include <algorithm>

#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

Program without(const Program& program, std::span<const size_t> actions) {
  Program less = program;
  less.actions.clear();
  std::vector<char> gone_calls(program.numbers, 0), gone_groups(program.groups.size(), 0),
      gone_graphs(program.graphs.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    bool goes = next < actions.size() && actions[next] == i;
    if (goes) ++next;
    switch (action.kind) {
      case ActionKind::kMakeGroups:
        if (goes) std::fill_n(gone_groups.begin() + action.first, action.count, 1);
        break;
      case ActionKind::kFreeGroup:
      case ActionKind::kCancelGroup:
        goes = goes || gone_groups[action.first];
        break;
      case ActionKind::kMakeGraph:
        goes = goes || gone_groups[program.graphs[action.first].group];
        if (goes) gone_graphs[action.first] = 1;
        break;
      case ActionKind::kFreeGraph:
        goes = goes || gone_graphs[action.first];
        break;
      case ActionKind::kCall:
      case ActionKind::kDisagree: {
        const bool neighbors = is_of_neighbors(action.spec.operation);
        goes = goes || (!action.spec.on_set && gone_groups[action.spec.group]) ||
               (neighbors && gone_graphs[action.spec.graph]);
        if (goes) gone_calls[action.number] = 1;
        break;
      }
      case ActionKind::kWait:
      case ActionKind::kStart:
      case ActionKind::kFree:
      case ActionKind::kCancel:
        goes = goes || gone_calls[action.call];
        break;
      default:
        break;
    }
    if (!goes) less.actions.push_back(action);
  }
  return less;
}

std::vector<Program> simpler(const Program& program) {
  std::vector<Program> variants;
  const auto vary = [&](const auto& change) {
    Program variant = program;
    bool changed = false;
    for (Action& action : variant.actions) {
      if (action.kind == ActionKind::kCall) changed |= change(action.spec);
    }
    if (changed) variants.push_back(std::move(variant));
  };
  vary([](CallSpec& spec) {
    const bool large = spec.bytes > 1 || spec.elements > 1;
    spec.bytes = (spec.bytes + 1) / 2;
    spec.elements = (spec.elements + 1) / 2;
    return large;
  });
  const auto drop = [&](auto CallSpec::*member, auto value) {
    vary([&](CallSpec& spec) {
      const bool had =
          spec.*member != static_cast<std::remove_reference_t<decltype(spec.*member)>>(value);
      spec.*member = static_cast<std::remove_reference_t<decltype(spec.*member)>>(value);
      return had;
    });
  };
  drop(&CallSpec::algorithm, -1);
  drop(&CallSpec::pacing, 0);
  drop(&CallSpec::pieces, 0);
  drop(&CallSpec::strided_send, false);
  drop(&CallSpec::strided_recv, false);
  drop(&CallSpec::displaced, false);
  drop(&CallSpec::in_place, false);
  drop(&CallSpec::ordered, false);
  drop(&CallSpec::memory, Memory::kPrivate);
  return variants;
}

}  // namespace ibcoll::lockstep
