#include "engine/schedule/transfer_plan.h"

#include "engine/base/hash.h"

namespace ibcoll {

namespace {

/// Servers counted from the root's on.
struct Turned {
  int first, servers;
  int operator()(int place) const { return (first + place) % servers; }
};

void plan_walk(const Turned& at, TransferPlan& plan) {
  const int servers = at.servers;
  const auto index = [&](int step, int from) {
    return static_cast<uint32_t>((step - 1) * servers + from);
  };
  for (int step = 1; step < servers; ++step) {
    for (int from = 0; from < servers; ++from) {
      const int to = (from + step) % servers;
      plan.transfers.push_back({from, to, from, to, TransferPlan::kNone, 2 * step, 2 * step + 1});
      // Who sent to it in the step before has this one's place.
      if (step > 1) {
        plan.tokens.push_back({index(step - 1, (from + 1) % servers), index(step, from), 0});
      }
    }
  }
}

void plan_ring(const Turned& at, TransferPlan& plan) {
  const int servers = at.servers;
  for (int step = 0; step + 1 < servers; ++step) {
    for (int from = 0; from < servers; ++from) {
      const int origin = (from - step + servers) % servers;
      const uint32_t forwards =
          step == 0 ? TransferPlan::kNone
                    : static_cast<uint32_t>((step - 1) * servers + (from + servers - 1) % servers);
      plan.transfers.push_back(
          {from, (from + 1) % servers, origin, Block::kEveryone, forwards, 2 * step, 2 * step + 1});
    }
  }
}

void plan_bcast(const Turned& at, TransferPlan& plan) {
  std::vector<uint32_t> brought(at.servers, TransferPlan::kNone);
  int64_t step = 0;
  for (int have = 1; have < at.servers; have *= 2, ++step) {
    for (int place = 0; place < have && place + have < at.servers; ++place) {
      brought[place + have] = static_cast<uint32_t>(plan.transfers.size());
      plan.transfers.push_back({at(place), at(place + have), at(0), Block::kEveryone,
                                brought[place], 2 * step, 2 * step + 1});
    }
  }
}

void plan_reduce(const Turned& at, TransferPlan& plan) {
  std::vector<uint32_t> into(at.servers, TransferPlan::kNone);  // by place: the latest
  int64_t step = 0;
  for (int distance = 1; distance < at.servers; distance *= 2, ++step) {
    for (int place = distance; place < at.servers; place += 2 * distance) {
      const auto index = static_cast<uint32_t>(plan.transfers.size());
      uint32_t& before = into[place - distance];
      plan.transfers.push_back({at(place), at(place - distance), Block::kEveryone, at(0),
                                into[place], 2 * step, 2 * step + 1});
      if (before != TransferPlan::kNone) plan.tokens.push_back({before, index, 0});
      before = index;
    }
  }
}

/// Partial results along a ring to their targets.
void plan_sums(const Turned& at, TransferPlan& plan) {
  const int servers = at.servers;
  for (int step = 0; step + 1 < servers; ++step) {
    for (int from = 0; from < servers; ++from) {
      const int target = (from - step - 1 + servers) % servers;
      const uint32_t forwards =
          step == 0 ? TransferPlan::kNone
                    : static_cast<uint32_t>((step - 1) * servers + (from + servers - 1) % servers);
      plan.transfers.push_back(
          {from, (from + 1) % servers, Block::kEveryone, target, forwards, 2 * step, 2 * step + 1});
    }
  }
}

/// The ring of an allgather behind what brings each server its sum.
void plan_results(const Turned& at, TransferPlan& plan) {
  TransferPlan ring;
  plan_ring(at, ring);
  const auto summed = static_cast<uint32_t>(plan.transfers.size());
  const auto servers = static_cast<uint32_t>(at.servers);
  for (TransferPlan::Transfer& t : ring.transfers) {
    const auto from = static_cast<uint32_t>(t.from);
    t.forwards = t.forwards == TransferPlan::kNone
                     ? summed - servers + (from + servers - 1) % servers
                     : t.forwards + summed;
    t.start_ns += 2 * (at.servers - 1);
    t.end_ns += 2 * (at.servers - 1);
    plan.transfers.push_back(t);
  }
}

}  // namespace

void TransferPlan::seal() {
  hash = mix(0, transfers.size());
  const auto add = [this](uint64_t value) { hash = mix(hash, value); };
  for (const Transfer& t : transfers) {
    for (const int64_t value : {int64_t{t.from}, int64_t{t.to}, int64_t{t.origin},
                                int64_t{t.target}, int64_t{t.forwards}, t.start_ns, t.end_ns}) {
      add(static_cast<uint64_t>(value));
    }
  }
  for (const Token& token : tokens) {
    add(uint64_t{token.after} << 32 | token.before);
    add(token.left);
  }
  add(uint64_t{last_part} << 32 | pieces);
  if (parts == 1) return;
  add(parts);
  for (const Transfer& t : transfers) add(t.part);
}

TransferPlan one_switch_plan(Collective collective, const Shape& shape, Rank root) {
  TransferPlan plan;
  const int servers = shape.servers();
  const Turned at{has_root(collective) ? shape.server_of(root) : 0, servers};
  switch (traits(collective).equal) {
    case Collective::kAlltoall:
      plan_walk(at, plan);
      break;
    case Collective::kAllgather:
      plan_ring(at, plan);
      break;
    case Collective::kGather:
      for (int place = 1; place < servers; ++place) {
        plan.transfers.push_back(
            {at(place), at(0), at(place), at(0), TransferPlan::kNone, 2 * place, 2 * place + 1});
        if (place > 1) {
          plan.tokens.push_back(
              {static_cast<uint32_t>(place - 2), static_cast<uint32_t>(place - 1), 0});
        }
      }
      break;
    case Collective::kScatter:
      for (int place = 1; place < servers; ++place) {
        plan.transfers.push_back(
            {at(0), at(place), at(0), at(place), TransferPlan::kNone, 2 * place, 2 * place + 1});
      }
      break;
    case Collective::kBcast:
      plan_bcast(at, plan);
      break;
    case Collective::kReduce:
      plan_reduce(at, plan);
      break;
    case Collective::kReduceScatterBlock:
      plan_sums(at, plan);
      break;
    case Collective::kAllreduce:
      plan_sums(at, plan);
      plan_results(at, plan);
      break;
    default:  // has none
      break;
  }
  plan.seal();
  return plan;
}

}  // namespace ibcoll
