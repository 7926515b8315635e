#include "engine/schedule/timeline.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "engine/schedule/expand.h"

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
      RankState& state = ranks_.emplace_back();
      auto items = expand(*program, pieces);
      for (int lane = 0; lane < kLanes; ++lane) {
        state.lanes[lane].done.resize(items[lane].size(), -1);
        state.lanes[lane].items = std::move(items[lane]);
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
  struct LaneState {
    std::vector<Item> items;
    std::vector<double> done;   // by item: when it is complete, -1: not known yet
    std::vector<double> until;  // by number of items: when so many are complete
    uint32_t cursor = 0;
    double time = 0;  // when the latest item started, or what it held back could
  };
  struct RankState {
    std::array<LaneState, kLanes> lanes;
    std::vector<double> gates;
    double port_free = 0, copies_free = 0;
  };
  struct Message {
    uint32_t put = 0;
    double time = 0;
  };
  struct Channel {
    std::deque<Message> messages;
    std::deque<double> tokens;
    std::vector<double> exposures;
  };

  static uint64_t key(int from, int to) {
    return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  }
  Channel& channel(Rank from, Rank to) { return channels_[key(from, to)]; }

  void complete(Rank rank, int lane, uint32_t item, double time) {
    LaneState& state = ranks_[rank].lanes[lane];
    state.done[item] = time;
    for (size_t next = state.until.size() - 1; next < state.done.size() && state.done[next] >= 0;
         ++next) {
      state.until.push_back(std::max(state.until.back(), state.done[next]));
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

  bool start_next(Rank rank, int lane) {
    RankState& state = ranks_[rank];
    LaneState& mine = state.lanes[lane];
    if (mine.cursor == mine.items.size()) return false;
    const Item& item = mine.items[mine.cursor];
    const Op& op = programs_[rank]->lanes[lane][item.op];
    double time = mine.time;
    for (int other = 0; other < kLanes; ++other) {
      const auto& until = state.lanes[other].until;
      if (item.after[other] >= until.size()) return false;
      time = std::max(time, until[item.after[other]]);
    }
    double open = time;
    if (!ready(rank, op, open)) return false;
    const uint32_t index = mine.cursor++;
    const double blocks = item.streamed ? static_cast<double>(op.count) / pieces_ : op.count;
    const auto record = [&](double begin, double end, double arrival) {
      activities_.push_back({rank, static_cast<Lane>(lane), item.op, begin, end, arrival});
    };
    const auto copied = [&](double from) {
      const double begin = std::max(from, state.copies_free);
      state.copies_free = begin + blocks * kLocalCost;
      record(begin, state.copies_free, state.copies_free);
      return state.copies_free;
    };
    mine.time = time;
    switch (op.kind) {
      case OpKind::kPut: {
        if (shape_.same_server(rank, op.peer)) {
          channel(rank, op.peer).messages.push_back({index, time});
          return true;  // complete when it is taken
        }
        const double begin = std::max(open, state.port_free);
        state.port_free = begin + blocks;
        record(begin, state.port_free, state.port_free + kLatency);
        channel(rank, op.peer).messages.push_back({index, state.port_free + kLatency});
        time = state.port_free;
        break;
      }
      case OpKind::kExpect: {
        auto& messages = channel(op.peer, rank).messages;
        const Message message = messages.front();
        messages.pop_front();
        time = std::max(time, message.time);
        if (static_cast<Lane>(lane) == Lane::kLocal) {
          time = copied(time);
          complete(op.peer, lane, message.put, time);
        }
        break;
      }
      case OpKind::kCopy:
      case OpKind::kReduce:
        time = copied(time);
        break;
      case OpKind::kExpose:
        if (op.to_server) {
          server_exposures_[key(rank, op.peer)].push_back(time);
          for (const Rank peer : shape_.members(op.peer)) {
            channel(rank, peer).exposures.push_back(time);
          }
        } else {
          channel(rank, op.peer).exposures.push_back(time);
        }
        break;
      case OpKind::kSignal: {
        if (item.streamed && item.piece != signal_piece(op, pieces_)) break;
        const bool local = shape_.same_server(rank, op.peer);
        channel(rank, op.peer).tokens.push_back(local ? time : time + kLatency);
        if (!local) record(time, time, time + kLatency);
        break;
      }
      case OpKind::kGateSignal:
        state.gates.push_back(time);
        break;
      case OpKind::kWait:
      case OpKind::kWaitExposed:
      case OpKind::kGateWait:
        time = mine.time = open;
        break;
      case OpKind::kForward:
        break;
    }
    complete(rank, lane, index, time);
    return true;
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
