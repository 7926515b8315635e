#include "studies/drawing/timeline.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "engine/schedule/lane_cursor.h"

namespace ibcoll {

namespace {

constexpr double kLatency = 0.25;
constexpr double kLocalCost = 0.25;  // of a block

/// All times are maxima over what comes before, so that operations may be gone through in any order
/// in which they are possible; the strict order of lanes is one (verified).
class Clockwork {
 public:
  Clockwork(const Shape& shape, std::span<const std::shared_ptr<const RankProgram>> programs,
            uint32_t pieces)
      : shape_(shape), programs_(programs), pieces_(pieces) {
    for (const auto& program : programs) {
      RankState& state = ranks_.emplace_back(*program, pieces);
      for (int lane = 0; lane < kLanes; ++lane) {
        state.lanes[lane].done.resize(state.at[lane].size());
        state.lanes[lane].until.push_back(0);
      }
    }
  }

  std::vector<Activity> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
        for (int lane = 0; lane < kLanes; ++lane) {
          while (start_next(rank, lane)) moved = true;
        }
      }
    }
    return std::move(activities_);
  }

 private:
  struct LaneTimes {
    std::vector<double> done;   // by item: when it is complete, if that is known
    std::vector<double> until;  // by number of items: when so many are complete
    double time = 0;            // when the latest item started, or what it held back could
  };
  struct RankState {
    RankState(const RankProgram& program, uint32_t pieces) : at(program, pieces) {}
    ProgramCursor at;
    std::array<LaneTimes, kLanes> lanes;
    std::vector<double> gates;
    double port_free = 0, copies_free = 0;
  };
  /// A put under way to who expects it.
  struct SentPut {
    uint32_t put = 0;
    double time = 0;
  };
  struct Channel {
    std::deque<SentPut> messages;
    std::deque<double> tokens;
    std::vector<double> exposures;
  };

  static uint64_t key(int from, int to) {
    return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  }
  Channel& channel(Rank from, Rank to) { return channels_[key(from, to)]; }

  void complete(Rank rank, int lane, uint32_t item, double time) {
    LaneCursor& at = ranks_[rank].at[lane];
    LaneTimes& times = ranks_[rank].lanes[lane];
    at.finish(item);
    times.done[item] = time;
    while (times.until.size() <= at.complete()) {
      times.until.push_back(std::max(times.until.back(), times.done[times.until.size() - 1]));
    }
  }

  /// When the peers are ready for the item; false if that is not known yet.
  bool ready(Rank rank, const Op& op, double& time) {
    const int server = shape_.server_of(rank);
    switch (op.kind) {
      case OpKind::kPut: {
        if (shape_.same_server(rank, op.peer)) return true;
        const auto& exposures = channel(op.peer, rank).exposures;
        if (exposures.size() <= op.exposure) return false;
        time = std::max(time, exposures[op.exposure] + kLatency);
        return true;
      }
      case OpKind::kExpect:
        return !channel(op.peer, rank).messages.empty();
      case OpKind::kWait: {
        auto& tokens = channel(op.peer, rank).tokens;
        if (tokens.empty()) return false;
        time = std::max(time, tokens.front());
        tokens.pop_front();
        return true;
      }
      case OpKind::kWaitExposed:
      case OpKind::kGateWait: {
        const bool gate = op.kind == OpKind::kGateWait;
        for (const Rank peer : shape_.members(gate ? server : op.peer)) {
          const auto& times = gate ? ranks_[peer].gates : server_exposures_[key(peer, server)];
          if (times.size() < op.threshold) return false;
          if (op.threshold > 0) {
            time = std::max(time, times[op.threshold - 1] + (gate ? 0 : kLatency));
          }
        }
        return true;
      }
      default:
        return true;
    }
  }

  /// An item as it starts.
  struct Starting {
    Rank rank;
    int lane;
    uint32_t item;
    Op op;
    double time;    // when it can by its own rank's doing
    double open;    // when its peers are ready, too
    double blocks;  // it moves
  };

  bool start_next(Rank rank, int lane) {
    RankState& state = ranks_[rank];
    LaneCursor& at = state.at[lane];
    const uint32_t item = at.next();
    if (at.all_started() || state.at.behind(lane, item) >= 0) return false;
    double time = state.lanes[lane].time;
    for (int other = 0; other < kLanes; ++other) {
      time = std::max(time, state.lanes[other].until[at.after(item)[other]]);
    }
    double open = time;
    if (!ready(rank, at.op(item), open)) return false;
    at.start(item);
    state.lanes[lane].time = time;
    const double count =
        static_cast<double>(at.op(item).count) / static_cast<double>(programs_[rank]->cut);
    const auto end = carry_out(
        {rank, lane, item, at.op(item), time, open, at.streamed(item) ? count / pieces_ : count});
    if (end) complete(rank, lane, item, *end);
    return true;
  }

  void record(const Starting& item, double begin, double end, double arrival) {
    const uint32_t place = ranks_[item.rank].at[item.lane].place(item.item);
    activities_.push_back({item.rank, static_cast<Lane>(item.lane), place, begin, end, arrival});
  }

  /// Copies what the item moves as soon as that is possible after `from`; when it is done.
  double copy(const Starting& item, double from) {
    double& free = ranks_[item.rank].copies_free;
    const double begin = std::max(from, free);
    free = begin + item.blocks * kLocalCost;
    record(item, begin, free, free);
    return free;
  }

  /// When the item is complete; nothing if that is when its peer has taken it.
  std::optional<double> carry_out(const Starting& item) {
    const auto& [rank, lane, index, op, time, open, blocks] = item;
    RankState& state = ranks_[rank];
    switch (op.kind) {
      case OpKind::kPut: {
        auto& messages = channel(rank, op.peer).messages;
        if (shape_.same_server(rank, op.peer)) {
          messages.push_back({index, time});
          return std::nullopt;
        }
        const double begin = std::max(open, state.port_free);
        state.port_free = begin + blocks;
        record(item, begin, state.port_free, state.port_free + kLatency);
        messages.push_back({index, state.port_free + kLatency});
        return state.port_free;
      }
      case OpKind::kExpect: {
        auto& messages = channel(op.peer, rank).messages;
        const SentPut sent = messages.front();
        messages.pop_front();
        const double there = std::max(time, sent.time);
        if (static_cast<Lane>(lane) != Lane::kLocal) return there;
        const double end = copy(item, there);
        complete(op.peer, lane, sent.put, end);
        return end;
      }
      case OpKind::kCopy:
      case OpKind::kReduce:
        return copy(item, time);
      case OpKind::kExpose:
        if (op.to_server) {
          server_exposures_[key(rank, op.peer)].push_back(time);
          for (const Rank peer : shape_.members(op.peer)) {
            channel(rank, peer).exposures.push_back(time);
          }
        } else {
          channel(rank, op.peer).exposures.push_back(time);
        }
        return time;
      case OpKind::kSignal: {
        if (!state.at[lane].sends_token(index, pieces_)) return time;
        const bool local = shape_.same_server(rank, op.peer);
        channel(rank, op.peer).tokens.push_back(local ? time : time + kLatency);
        if (!local) record(item, time, time, time + kLatency);
        return time;
      }
      case OpKind::kGateSignal:
        state.gates.push_back(time);
        return time;
      case OpKind::kWait:
      case OpKind::kWaitExposed:
      case OpKind::kGateWait:
        state.lanes[lane].time = open;
        return open;
      case OpKind::kForward:
        return time;
    }
    return time;
  }

  const Shape& shape_;
  std::span<const std::shared_ptr<const RankProgram>> programs_;
  const uint32_t pieces_;
  std::vector<RankState> ranks_;
  std::unordered_map<uint64_t, Channel> channels_;
  std::unordered_map<uint64_t, std::vector<double>> server_exposures_;  // of a rank to a server
  std::vector<Activity> activities_;
};

}  // namespace

std::vector<Activity> timeline(const Shape& shape,
                               std::span<const std::shared_ptr<const RankProgram>> programs,
                               uint32_t pieces) {
  return Clockwork(shape, programs, pieces).run();
}

}  // namespace ibcoll
