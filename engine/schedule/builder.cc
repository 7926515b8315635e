#include "engine/schedule/builder.h"

#include <algorithm>
#include <cassert>

#include "engine/base/memory_item.h"
#include "engine/schedule/op_kinds.h"
#include "engine/schedule/program_hash.h"

namespace ibcoll {

namespace {

using Counts = std::array<uint32_t, kLanes>;

void raise(Counts& counts, const Counts& to) {
  for (int lane = 0; lane < kLanes; ++lane) counts[lane] = std::max(counts[lane], to[lane]);
}

}  // namespace

struct ProgramBuilder::State {
  /// The operation that wrote a slot: lane and one more than its index; 0: nobody.
  class Writer {
   public:
    void set(Lane lane, uint32_t end) { packed_ = (static_cast<uint32_t>(lane) << 30) | end; }
    void raise(Counts& after) const {
      const uint32_t end = packed_ & ((1u << 30) - 1);
      uint32_t& count = after[packed_ >> 30];
      count = std::max(count, end);
    }

   private:
    uint32_t packed_ = 0;
  };

  // Of slots. The send buffer is never written, scratch only combined into after its first write:
  // only the receive buffer and the scratch of reductions need their readers.
  std::vector<Writer> recv_writer, scratch_writer;
  std::vector<Counts> recv_readers, scratch_readers;

  // Of lanes.
  Counts size{};                      // operations written
  std::array<Counts, kLanes> held{};  // `after` that all further operations of a lane start from
  bool relaxed = false;
  std::array<uint32_t, kLanes> run{};  // open run, 0: none
  uint32_t runs = 0;
  std::vector<uint32_t> put_run, expect_run;  // by peer: the last run that has one
  std::array<uint32_t, kLanes> stream_begin{};
  bool in_strands = false, once = false;  // the open stream

  // Of steps.
  uint32_t step = 0, window = 0;
  bool network_only = false;
  struct StepEnd {
    uint32_t step;
    Counts size;
  };
  std::vector<StepEnd> ends;

  // Of exposures.
  std::vector<Rank> expected;       // ranks of other servers, in order of their first expect
  std::vector<uint32_t> expose_op;  // by peer: one more than the index of the last direct one
  std::vector<uint32_t> expose_server_op;
  std::vector<bool> is_expected;
};

ProgramBuilder::ProgramBuilder(Collective collective, std::string algorithm, const Shape& shape,
                               Rank me, const AlgorithmOptions& options)
    : shape_(&shape), state_(std::make_unique<State>()) {
  program_.collective = collective;
  program_.hash = program_hash(collective, algorithm, shape, options);
  program_.algorithm = std::move(algorithm);
  program_.me = me;
  program_.root = has_root(collective) ? options.root : 0;
  if (has_graph(collective)) program_.graph = options.graph;
  const size_t slots = program_.recv_slots(shape);
  state_->recv_writer.resize(slots);
  state_->recv_readers.resize(slots);
  state_->put_run.resize(shape.ranks());
  state_->expect_run.resize(shape.ranks());
  state_->expose_op.resize(shape.ranks());
  state_->expose_server_op.resize(shape.servers());
  state_->is_expected.resize(shape.ranks());
}

ProgramBuilder::~ProgramBuilder() = default;

void ProgramBuilder::begin_step(uint32_t step) {
  State& s = *state_;
  assert(step >= s.step);
  if (step > s.step) s.ends.push_back({s.step, s.size});
  s.step = step;
  if (s.window == 0 || step < s.window) return;
  for (size_t i = s.ends.size(); i-- > 0;) {
    if (s.ends[i].step > step - s.window) continue;
    Counts base = s.ends[i].size;
    if (s.network_only) base[static_cast<int>(Lane::kLocal)] = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!s.network_only || lane != static_cast<int>(Lane::kLocal)) raise(s.held[lane], base);
    }
    break;
  }
}

void ProgramBuilder::set_window(uint32_t window, bool network_only) {
  state_->window = window;
  state_->network_only = network_only;
}

void ProgramBuilder::hold(Lane lane, Lane of) {
  uint32_t& count = state_->held[static_cast<int>(lane)][static_cast<int>(of)];
  count = std::max(count, state_->size[static_cast<int>(of)]);
}

void ProgramBuilder::begin_relaxed() {
  state_->relaxed = true;
  state_->run = {};
}

void ProgramBuilder::end_relaxed() { state_->relaxed = false; }

void ProgramBuilder::begin_stream() {
  state_->in_strands = state_->once = false;
  state_->stream_begin = state_->size;
}

void ProgramBuilder::begin_strands(bool once) {
  begin_stream();
  state_->in_strands = true;
  state_->once = once;
}

void ProgramBuilder::end_stream() {
  State& s = *state_;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t first = s.stream_begin[lane];
    if (s.size[lane] == first) continue;
    Stream stream{static_cast<Lane>(lane), s.once, first, s.size[lane] - first};
    auto strands =
        s.in_strands ? divide_by_peer(stream, program_.lanes[lane]) : std::optional<Strands>();
    if (strands) {
      stream.strands = static_cast<uint32_t>(program_.strands.size());
      program_.strands.push_back(std::move(*strands));
    }
    if (strands || !s.once) program_.streams.edit().push_back(stream);
  }
}

void ProgramBuilder::cut_block(uint32_t slots) {
  assert(program_.size() == 0 && traits(program_.collective).cuts);
  program_.cut = slots;
  const size_t received = program_.recv_slots(*shape_);
  state_->recv_writer.resize(received);
  state_->recv_readers.resize(received);
}

Slice ProgramBuilder::add_scratch(std::span<const Block> blocks) {
  const auto first = static_cast<uint32_t>(program_.scratch.size());
  std::vector<Block>& scratch = program_.scratch.edit();
  scratch.insert(scratch.end(), blocks.begin(), blocks.end());
  state_->scratch_writer.resize(program_.scratch.size());
  if (reduces(program_.collective)) state_->scratch_readers.resize(program_.scratch.size());
  return {Buffer::kScratch, first, static_cast<uint32_t>(blocks.size())};
}

/// The lane an operation stands in unless its algorithm says otherwise.
Lane ProgramBuilder::lane_of(OpKind kind, int32_t peer) const {
  const OpMeaning& means = meaning(kind);
  const bool inside =
      means.peer == OpMeaning::Peer::kNone ||
      (means.peer == OpMeaning::Peer::kRank && shape_->same_server(peer, program_.me));
  return (inside ? means.inside : means.between).first();
}

Op& ProgramBuilder::add(OpKind kind, int32_t peer) { return add(kind, peer, lane_of(kind, peer)); }

Op& ProgramBuilder::add(OpKind kind, int32_t peer, Lane lane) {
  State& s = *state_;
  const int l = static_cast<int>(lane);
  Op& op = program_.lanes[l].edit().emplace_back();
  ++s.size[l];
  op.kind = kind;
  op.lane = lane;
  op.peer = peer;
  op.step = s.step;
  op.after = s.held[l];
  program_.steps = std::max(program_.steps, s.step + 1);
  if (!s.relaxed || !meaning(kind).relaxed) {
    s.run[l] = 0;  // what holds others back must stand still itself
  } else {
    join_run(op);
  }
  return op;
}

void ProgramBuilder::join_run(Op& op) {
  State& s = *state_;
  uint32_t& run = s.run[static_cast<int>(op.lane)];
  uint32_t* last = op.kind == OpKind::kPut      ? &s.put_run[op.peer]
                   : op.kind == OpKind::kExpect ? &s.expect_run[op.peer]
                                                : nullptr;
  const bool again = last != nullptr && run != 0 && *last == run;
  op.relaxed = run == 0 || again ? Op::Relaxed::kFirstOfRun : Op::Relaxed::kInRun;
  if (op.relaxed == Op::Relaxed::kFirstOfRun) run = ++s.runs;
  if (last != nullptr) *last = run;
}

/// Slices out of bounds are left to the verifier, here they must only do no harm.
static uint32_t end_within(const Slice& slice, size_t slots) {
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{slice.first} + slice.count, slots));
}

void ProgramBuilder::read(Op& op, Slice slice) {
  State& s = *state_;
  op.src_buffer = slice.buffer;
  op.src_first = slice.first;
  op.count = slice.count;
  const int lane = static_cast<int>(op.lane);
  if (slice.buffer == Buffer::kScratch) {
    const uint32_t end = end_within(slice, s.scratch_writer.size());
    for (uint32_t slot = slice.first; slot < end; ++slot) {
      s.scratch_writer[slot].raise(op.after);
      if (!s.scratch_readers.empty()) s.scratch_readers[slot][lane] = s.size[lane];
    }
  } else if (slice.buffer == Buffer::kRecv) {
    const uint32_t end = end_within(slice, s.recv_writer.size());
    for (uint32_t slot = slice.first; slot < end; ++slot) {
      s.recv_writer[slot].raise(op.after);
      s.recv_readers[slot][lane] = s.size[lane];
    }
  }
}

void ProgramBuilder::write(Op& op, Slice slice) {
  State& s = *state_;
  op.dst_buffer = slice.buffer;
  op.dst_first = slice.first;
  op.count = std::max(op.count, slice.count);
  const uint32_t end_of_op = s.size[static_cast<int>(op.lane)];
  if (slice.buffer == Buffer::kScratch) {
    const uint32_t end = end_within(slice, s.scratch_writer.size());
    for (uint32_t slot = slice.first; slot < end; ++slot) {
      s.scratch_writer[slot].set(op.lane, end_of_op);
    }
  } else if (slice.buffer == Buffer::kRecv) {
    // Another server's put may land as soon as it is exposed: that is what has to wait.
    Op* holder = &op;
    if (op.kind == OpKind::kExpect && op.lane == Lane::kRecv) {
      const uint32_t direct = s.expose_op[op.peer];
      const uint32_t server = s.expose_server_op[shape_->server_of(op.peer)];
      const uint32_t expose = std::max(direct, server);
      holder =
          expose == 0 ? nullptr : &program_.lanes[static_cast<int>(Lane::kRecv)].edit()[expose - 1];
    }
    const uint32_t end = end_within(slice, s.recv_writer.size());
    for (uint32_t slot = slice.first; slot < end; ++slot) {
      if (holder != nullptr) {
        s.recv_writer[slot].raise(holder->after);
        raise(holder->after, s.recv_readers[slot]);
      }
      s.recv_writer[slot].set(op.lane, end_of_op);
    }
  }
}

void ProgramBuilder::copy(Slice dst, Slice src) {
  Op& op = add(OpKind::kCopy);
  read(op, src);
  write(op, dst);
}

/// The second write of slots, which comes after the first; of the receive buffer each does.
void ProgramBuilder::rewrite(Op& op, Slice dst) {
  if (dst.buffer == Buffer::kScratch) {  // written for the second time
    const uint32_t end = end_within(dst, state_->scratch_writer.size());
    for (uint32_t slot = dst.first; slot < end; ++slot) {
      state_->scratch_writer[slot].raise(op.after);
      if (!state_->scratch_readers.empty()) raise(op.after, state_->scratch_readers[slot]);
    }
  }
  write(op, dst);
}

void ProgramBuilder::reduce(Slice dst, Slice src, Fold fold) {
  Op& op = add(OpKind::kReduce);
  op.ordered = fold.ordered;
  op.before = fold.before;
  read(op, src);
  rewrite(op, dst);
}

void ProgramBuilder::expect_combined(Rank peer, Slice dst, Fold fold) {
  Op& op = add(OpKind::kExpect, peer);
  op.combines = true;
  op.ordered = fold.ordered;
  op.before = fold.before;
  rewrite(op, dst);
}

void ProgramBuilder::put(Rank peer, Slice src, Slice dst, uint8_t exposure) {
  Op& op = add(OpKind::kPut, peer);
  op.exposure = exposure;
  read(op, src);
  op.dst_buffer = dst.buffer;
  op.dst_first = dst.first;
  op.count = std::max(op.count, dst.count);
}

void ProgramBuilder::expect(Rank peer, Slice dst, uint8_t exposure) {
  Op& op = add(OpKind::kExpect, peer);
  op.exposure = exposure;
  if (op.lane == Lane::kRecv && !state_->is_expected[peer]) {
    state_->is_expected[peer] = true;
    state_->expected.push_back(peer);
  }
  write(op, dst);
}

void ProgramBuilder::expose(Rank peer) {
  add(OpKind::kExpose, peer);
  state_->expose_op[peer] = state_->size[static_cast<int>(Lane::kRecv)];
}

void ProgramBuilder::expose_to_server(int server) {
  add(OpKind::kExpose, server).to_server = true;
  state_->expose_server_op[server] = state_->size[static_cast<int>(Lane::kRecv)];
}

void ProgramBuilder::forward(uint32_t exposures) { add(OpKind::kForward).threshold = exposures; }

void ProgramBuilder::wait_exposed(int server, uint32_t times) {
  add(OpKind::kWaitExposed, server).threshold = times;
}

void ProgramBuilder::signal(Rank peer) { add(OpKind::kSignal, peer); }

void ProgramBuilder::signal_arrival(Rank peer, uint32_t left) {
  Op& op = add(OpKind::kSignal, peer, Lane::kRecv);
  op.threshold = left;
  constexpr int kRecv = static_cast<int>(Lane::kRecv);
  op.after[kRecv] = std::max(op.after[kRecv], state_->size[kRecv] - 1);
}

void ProgramBuilder::wait(Rank peer) { add(OpKind::kWait, peer); }

void ProgramBuilder::wait(Rank peer, Lane lane) { add(OpKind::kWait, peer, lane); }

void ProgramBuilder::gate_signal(Lane of) {
  hold(of, of);
  add(OpKind::kGateSignal, kNoPeer, of);
}

void ProgramBuilder::gate_wait(uint32_t gates, Lane lane) {
  add(OpKind::kGateWait, kNoPeer, lane).threshold = gates;
}

/// Exposures nobody wrote stand before everything else.
void ProgramBuilder::expose_all_expected() {
  State& s = *state_;
  std::vector<Op> exposes;
  for (const Rank peer : s.expected) {
    if (s.expose_op[peer] != 0 || s.expose_server_op[shape_->server_of(peer)] != 0) continue;
    Op op;
    op.kind = OpKind::kExpose;
    op.lane = Lane::kRecv;
    op.peer = peer;
    exposes.push_back(op);
  }
  if (exposes.empty()) return;
  constexpr int kRecv = static_cast<int>(Lane::kRecv);
  const auto shift = static_cast<uint32_t>(exposes.size());
  for (OpList& lane : program_.lanes) {
    for (Op& op : lane.edit()) {
      if (op.after[kRecv] > 0) op.after[kRecv] += shift;
    }
  }
  for (Stream& stream : program_.streams.edit()) {
    if (stream.lane == Lane::kRecv) stream.first += shift;
  }
  std::vector<Op>& lane = program_.lanes[kRecv].edit();
  lane.insert(lane.begin(), exposes.begin(), exposes.end());
}

std::shared_ptr<const RankProgram> ProgramBuilder::finish() {
  expose_all_expected();
  std::vector<Stream>& streams = program_.streams.edit();
  std::sort(streams.begin(), streams.end(), [](const Stream& a, const Stream& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.first < b.first;
  });
  for (OpList& lane : program_.lanes) lane.shrink_to_fit();
  program_.scratch.shrink_to_fit();
  program_.streams.shrink_to_fit();
  program_.strands.shrink_to_fit();
  const std::vector<Op>& local = program_.lanes[static_cast<int>(Lane::kLocal)].edit();
  program_.sends_locally_only = std::none_of(local.begin(), local.end(), waits_locally);
  auto program = std::make_shared<RankProgram>(std::move(program_));
  program_ = RankProgram();
  return program;
}

/// While the longest list is copied, to grow once more or to be kept.
size_t ProgramBuilder::bytes_beside(const RankProgram& program, const Shape& shape) {
  const size_t scratch = program.scratch.size();
  size_t bytes =
      sizeof(State) + program.recv_slots(shape) * (sizeof(State::Writer) + sizeof(Counts)) +
      grown(scratch) * sizeof(State::Writer) + grown(program.steps) * sizeof(State::StepEnd) +
      static_cast<size_t>(shape.ranks()) * (3 * sizeof(uint32_t) + sizeof(Rank)) +
      static_cast<size_t>(shape.servers()) * sizeof(uint32_t);
  if (reduces(program.collective)) bytes += grown(scratch) * sizeof(Counts);
  size_t longest = 0;
  const auto add = [&]<class T>(const PackedList<T>& list) {
    const size_t kept = list.is_packed() ? 0 : list.size();  // which the program has
    bytes += (grown(list.size()) - kept) * sizeof(T);
    longest = std::max(longest, list.size() * sizeof(T));
  };
  for (const OpList& lane : program.lanes) add(lane);
  add(program.streams);
  add(program.scratch);
  return bytes + longest;
}

}  // namespace ibcoll
