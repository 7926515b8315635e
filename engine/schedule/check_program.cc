#include <optional>
#include <vector>

#include "engine/schedule/describe.h"
#include "engine/schedule/op_kinds.h"
#include "engine/schedule/verifier.h"

namespace ibcoll {

namespace {

class Checker {
 public:
  Checker(const Shape& shape, const RankProgram& program) : shape_(shape), program_(program) {}

  Status run() {
    if (program_.me < 0 || program_.me >= shape_.ranks()) {
      return fail(ErrorCode::kInvalidProgram, "a program of rank {}: there are {} ranks",
                  program_.me, shape_.ranks());
    }
    for (const Stream& stream : program_.streams) {
      if (stream.once && static_cast<size_t>(stream.lane) < kLanes) once_.push_back(stream);
    }
    for (const Lane lane : {Lane::kSend, Lane::kRecv, Lane::kLocal}) {
      uint32_t step = 0;
      const OpReader ops(program_.lane(lane));
      for (index_ = 0; index_ < program_.lane(lane).size(); ++index_) {
        lane_ = lane;
        const Op& op = ops[index_];
        if (op.lane != lane) return bad("it says it is in lane {}", to_string(op.lane));
        if (op.step < step) return bad("its step is smaller than the one before, {}", step);
        if (op.step >= program_.steps) return bad("the program has {} steps", program_.steps);
        step = op.step;
        IBCOLL_TRY(check_order(op, index_ == 0 ? Op::Relaxed::kNo : ops[index_ - 1].relaxed));
        IBCOLL_TRY(check_fields(op));
        IBCOLL_TRY(check_peer(op));
        IBCOLL_TRY(check_slices(op));
      }
    }
    if (has_root(program_.collective) && (program_.root < 0 || program_.root >= shape_.ranks())) {
      return fail(ErrorCode::kInvalidProgram, "rank {}: its root is {}, there are {} ranks",
                  program_.me, program_.root, shape_.ranks());
    }
    const uint64_t numbered = parts_have_targets(program_.collective) ? shape_.ranks() : 1;
    if (program_.cut < 1 || program_.cut * numbered > kMaxCut ||
        (program_.cut > 1 && !traits(program_.collective).cuts)) {
      return fail(ErrorCode::kInvalidProgram, "rank {}: a block of {} is cut into {}", program_.me,
                  to_string(program_.collective), program_.cut);
    }
    for (const Block& block : program_.scratch) {
      if (!may_hold(block)) {
        return fail(ErrorCode::kInvalidProgram, "rank {}: a scratch slot is for block {} -> {}",
                    program_.me, block.origin, block.target);
      }
    }
    return check_streams();
  }

 private:
  /// Whether a scratch slot may be for that block.
  bool may_hold(const Block& block) const {
    const Collective collective = program_.collective;
    const bool of_rank = block.target >= 0 && block.target < shape_.ranks();
    if (program_.cut > 1) {
      const int64_t part = int64_t{Block::kFirstPart} - block.target;
      const int64_t targets = parts_have_targets(collective) ? shape_.ranks() : 1;
      const bool of_origin = reduces(collective)
                                 ? block.origin == Block::kCombined
                                 : block.origin >= 0 && block.origin < shape_.ranks();
      // The slots of a broadcast lie where their numbers say, within the block.
      return program_.has_uneven_slots() && of_origin && part >= 0 && part < targets * program_.cut;
    }
    if (!reduces(collective)) {
      return block.origin >= 0 && block.origin < shape_.ranks() &&
             (of_rank || block.target == Block::kEveryone ||
              (has_graph(collective) && block.target >= 0));
    }
    if (block.origin != Block::kCombined) return false;
    switch (traits(collective).send.target) {
      case End::kRoot:
        return block.target == program_.root;
      case End::kSlot:
        return of_rank;
      default:
        return block.target == Block::kEveryone;
    }
  }

  template <class... Args>
  Status bad(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInvalidProgram, "{}: {}", describe(program_, lane_, index_),
                fmt::format(format, std::forward<Args>(args)...));
  }

  /// `before`: what the operation before it is, if there is one.
  Status check_order(const Op& op, Op::Relaxed before) {
    for (const Stream& stream : once_) {
      const uint32_t after = op.after[static_cast<int>(stream.lane)];
      if (after > stream.first && after - stream.first < stream.count)
        return bad("comes after a part of what is carried out in strands, once");
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const size_t limit = lane == static_cast<int>(lane_) ? index_ : program_.lanes[lane].size();
      if (op.after[lane] > limit) {
        return bad("comes after {} operations of lane {}, of which {} can be", op.after[lane],
                   to_string(static_cast<Lane>(lane)), limit);
      }
    }
    if (op.relaxed == Op::Relaxed::kNo) return {};
    if (!meaning(op.kind).relaxed) return bad("can't be relaxed");
    if (op.relaxed == Op::Relaxed::kFirstOfRun) {
      put_in_run_.assign(shape_.ranks(), false);
      expect_in_run_.assign(shape_.ranks(), false);
    } else if (before == Op::Relaxed::kNo) {
      return bad("is in a run that never began");
    }
    if (op.kind != OpKind::kPut && op.kind != OpKind::kExpect) return {};
    if (op.peer < 0 || op.peer >= shape_.ranks()) return {};  // reported by check_peer
    std::vector<bool>& in_run = op.kind == OpKind::kPut ? put_in_run_ : expect_in_run_;
    if (in_run[op.peer]) return bad("is the second of its kind and peer in one relaxed run");
    in_run[op.peer] = true;
    return {};
  }

  /// What the operation has no use for is left alone.
  Status check_fields(const Op& op) {
    const OpMeaning& means = meaning(op.kind);
    const bool writes = means.writes != OpMeaning::Writes::kNone;
    if (op.exposure != 0 && !means.exposure) return bad("has no exposure");
    if (op.threshold != 0 && !means.threshold) return bad("has no threshold");
    if (op.combines && !means.combines) return bad("takes in nothing");
    const bool folds = means.ordered && (!means.combines || op.combines);
    if (op.ordered && !folds) return bad("has no order of ranks");
    if (op.before && !folds) return bad("combines nothing");
    if (op.src_buffer != Buffer::kNone && !means.reads) return bad("reads no slot");
    if (op.dst_buffer != Buffer::kNone && !writes) return bad("writes no slot");
    if (op.to_server && means.peer != OpMeaning::Peer::kRankOrServer) {
      return bad("addresses no server");
    }
    return {};
  }

  Status check_peer(const Op& op) {
    const OpMeaning& means = meaning(op.kind);
    bool inside = true;
    if (addresses_server(op)) {
      if (op.peer < 0 || op.peer >= shape_.servers()) {
        return bad("there are {} servers", shape_.servers());
      }
      if (op.peer == shape_.server_of(program_.me)) return bad("that is its own server");
      inside = false;
    } else if (means.peer != OpMeaning::Peer::kNone) {
      if (op.peer < 0 || op.peer >= shape_.ranks())
        return bad("there are {} ranks", shape_.ranks());
      if (op.peer == program_.me) return bad("a rank is no peer of its own");
      inside = shape_.same_server(op.peer, program_.me);
    }
    const Lanes& lanes = inside ? means.inside : means.between;
    if (lanes.empty()) return bad("local ranks need no exposure");
    if (op.combines && !inside) return bad("another server's data is not combined as it comes");
    if (!lanes.contains(lane_)) return bad("belongs in lane {}", to_string(lanes.first()));
    if (op.kind != OpKind::kWait) return {};
    waits_.resize(shape_.ranks(), -1);
    if (waits_[op.peer] >= 0 && waits_[op.peer] != static_cast<int>(lane_)) {
      return bad("waits for tokens of one rank stand in two lanes");
    }
    waits_[op.peer] = static_cast<int>(lane_);
    return {};
  }

  Status check_slices(const Op& op) {
    const OpMeaning& means = meaning(op.kind);
    if (means.writes == OpMeaning::Writes::kNone) return {};
    if (op.count == 0) return bad("moves no slot");
    if ((op.kind == OpKind::kReduce || op.combines) && !reduces(program_.collective)) {
      return bad("{} combines nothing", to_string(program_.collective));
    }
    if (means.reads) IBCOLL_TRY(check_slice(op, op.src()));
    if (op.dst_buffer == Buffer::kSend) return bad("the send buffer is only read");
    if (op.kind == OpKind::kPut && has_graph(program_.collective) &&
        (op.dst_buffer != Buffer::kNone || op.dst_first != 0)) {
      return bad("says where its receiver puts it, which a rank of {} can't know",
                 to_string(program_.collective));
    }
    // The buffers of a peer are its own; that a put stays inside shows when it meets its expect.
    if (means.writes == OpMeaning::Writes::kOwn) IBCOLL_TRY(check_slice(op, op.dst()));
    const bool message = means.peer != OpMeaning::Peer::kNone;
    if (message && op.count > 1 && !lies_side_by_side(program_.collective) &&
        ((op.dst_buffer != Buffer::kScratch && op.dst_buffer != Buffer::kNone) ||
         (means.reads && op.src_buffer != Buffer::kScratch))) {
      return bad("slots of the user's buffers don't lie side by side in {}",
                 to_string(program_.collective));
    }
    return {};
  }

  Status check_slice(const Op&, const Slice& slice) {
    const uint64_t slots = slice.buffer == Buffer::kSend      ? program_.send_slots(shape_)
                           : slice.buffer == Buffer::kRecv    ? program_.recv_slots(shape_)
                           : slice.buffer == Buffer::kScratch ? program_.scratch.size()
                                                              : 0;
    if (uint64_t{slice.first} + slice.count > slots) {
      return bad("{} is out of bounds: buffer {} has {} slots", describe(slice),
                 to_string(slice.buffer), slots);
    }
    return {};
  }

  /// Where lengths differ a put's place is told in the order of operations, once for all its
  /// pieces. Slots of a bcast are equal, but for the last one, and placed by their numbers.
  Status check_streamed_put(const Stream& stream, const OpReader& ops) {
    const Op& op = ops[index_];
    const bool told = program_.tells_places();
    if (!told || stream.once || lane_ != Lane::kSend || op.kind != OpKind::kPut) return {};
    const Rank peer = op.peer;
    for (uint32_t before = stream.first; before < index_; ++before) {
      if (ops[before].kind == OpKind::kPut && ops[before].peer == peer)
        return bad("is the second put to its peer in one stream, whose places would be mixed up");
    }
    return {};
  }

  Status check_streams() {
    std::optional<Stream> before;
    for (const Stream& stream : program_.streams) {
      const auto lane = static_cast<size_t>(stream.lane);
      if (lane >= kLanes || stream.count == 0 ||
          uint64_t{stream.first} + stream.count > program_.lanes[lane].size() ||
          (before &&
           (before->lane > stream.lane ||
            (before->lane == stream.lane && before->first + before->count > stream.first)))) {
        return fail(ErrorCode::kInvalidProgram,
                    "rank {}: stream of {} operations from {} of lane {} is out of bounds or order",
                    program_.me, stream.count, stream.first, lane);
      }
      lane_ = stream.lane;
      const OpReader ops(program_.lane(lane_));
      for (index_ = stream.first; index_ < stream.first + stream.count; ++index_) {
        const Op& op = ops[index_];
        if (!meaning(op.kind).streamed) return bad("can't be in a stream");
        if (op.relaxed != Op::Relaxed::kNo) return bad("is both relaxed and in a stream");
        IBCOLL_TRY(check_streamed_put(stream, ops));
      }
      if (stream.once || stream.in_strands()) {
        index_ = stream.first;
        const auto strands = divide_by_peer(stream, program_.lane(lane_));
        if (!strands || stream.strands >= program_.strands.size() ||
            !(*strands == program_.strands[stream.strands]))
          return bad("begins strands that are not those of its puts' peers");
      }
      before = stream;
    }
    return {};
  }

  const Shape& shape_;
  const RankProgram& program_;
  Lane lane_ = Lane::kSend;
  uint32_t index_ = 0;
  std::vector<bool> put_in_run_, expect_in_run_;
  std::vector<int> waits_;  // by peer: the lane of its waits
  std::vector<Stream> once_;
};

}  // namespace

Status check_program(const Shape& shape, const RankProgram& program) {
  return Checker(shape, program).run();
}

}  // namespace ibcoll
