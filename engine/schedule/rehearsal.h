#pragma once
/// Executes the programs of all ranks symbolically, without data: the inside of verify().

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "engine/schedule/lane_cursor.h"
#include "engine/schedule/vector_clock.h"
#include "engine/schedule/verifier.h"

namespace ibcoll {

/// One run with a given number of pieces under the weakest transport (see verify()). What is
/// possible never depends on who moves first, so one order of moves shows whether all complete. Who
/// is known to be complete when something starts is kept in vector clocks, of the loosest order the
/// programs allow, so that races show although the run itself is one order.
class Rehearsal {
 public:
  /// The programs must have passed check_program(). `puts`, if given, gets the puts to other
  /// servers.
  Rehearsal(const Shape& shape, std::span<const std::shared_ptr<const RankProgram>> programs,
            uint32_t pieces, std::vector<OrderedPut>* puts = nullptr);

  Status run();
  /// Two puts of different servers into one that nothing orders, if there are.
  const std::string& witness() const { return witness_; }

 private:
  static constexpr int kSend = static_cast<int>(Lane::kSend);
  static constexpr int kRecv = static_cast<int>(Lane::kRecv);
  static constexpr int kLocal = static_cast<int>(Lane::kLocal);

  struct LaneRun {
    std::vector<uint32_t> references;  // by number of items complete: `after`s still to come
    std::unordered_map<uint32_t, VectorClock> known;       // the same: what is known then
    std::unordered_map<uint32_t, VectorClock> done_early;  // complete, but not all before it
    VectorClock start;     // what the latest start knows, and all before it
    VectorClock run_base;  // the same before the present relaxed run
    VectorClock finish;    // what is known when all items are that are complete in order
  };
  /// Of a reduction: whose data is combined in a piece, ascending. Shared, never changed.
  using Parts = std::shared_ptr<const std::vector<Rank>>;
  /// What a cell holds or a message carries.
  struct Content {
    Block block;
    Parts parts;  ///< null where nothing is combined
  };
  /// One piece of one slot.
  struct Cell {
    Content content;
    bool written = false;
    int8_t writer_lane = 0;
    uint32_t written_by = 0;                 // items of that lane that must be complete
    std::array<uint32_t, kLanes> read_by{};  // the same for its readers
  };
  struct RankRun {
    RankRun(const RankProgram& program, uint32_t pieces) : at(program, pieces) {}
    ProgramCursor at;
    std::array<LaneRun, kLanes> lanes;
    std::array<std::vector<Cell>, 3> cells;  // of send, receive, scratch: slot * pieces + piece
    std::vector<uint32_t> expect_first;      // by peer: where its expects begin in `expects`
    std::vector<uint32_t> expects;           // items, by peer in order
    std::vector<VectorClock> gates;          // passed so far
    uint32_t routed = 0;                     // exposures that came through this rank
    uint32_t forwarded = 0;                  // largest number it has stayed for
    bool queued = false;
  };
  /// A put under way to who expects it.
  struct SentPut {
    uint32_t put = 0;  // item of the sender
    VectorClock start;
    std::vector<Content> contents;
  };
  /// From one rank to another.
  struct Channel {
    std::deque<SentPut> messages;
    uint32_t puts = 0;
    uint32_t offered = 0;  // local puts not yet taken
    std::deque<VectorClock> tokens;
    std::vector<VectorClock> exposures;  // of `from` to `to`
    uint32_t exposures_used = 0;
  };

  void prepare(Rank rank);
  Status advance(Rank rank);
  /// Why an item can't start.
  struct Obstacle {
    bool own = false;  // an operation of this rank's own comes first
    Rank peer = -1;    // who has not done something; -1: nobody in particular
  };
  std::optional<Obstacle> obstacle(Rank rank, int lane);
  std::optional<Obstacle> obstacle_at_peer(Rank rank, const Op& op);

  /// An item as it runs.
  struct Running {
    Rank rank;
    int lane;
    uint32_t item;
    Op op;
    VectorClock start;  // what its start knows
  };
  Status start_next(Rank rank, int lane);
  VectorClock start_clock(Rank rank, int lane);
  void finish(Rank rank, int lane, uint32_t item, const VectorClock& clock);
  Status put(Running& put);
  Status expect(Running& expect, VectorClock& complete);
  Status expose(const Running& expose);
  void meet(const Running& wait, VectorClock& complete);
  /// The cells of `first` and the slots behind it that an item touches, in order.
  std::vector<size_t> cells(const Running& item, uint32_t first) const;
  Result<Content> read(const Running& item, Buffer buffer, size_t cell);
  Status write(const Running& item, Buffer buffer, size_t cell, const Content& content,
               const VectorClock& start);
  Status combine(const Running& item, size_t dst, const Content& from);
  Status check_unread(const Running& item, Buffer buffer, size_t cell, const VectorClock& start);
  void watch_pace(const Running& put, uint32_t expect_item);
  void record(const Running& put, uint32_t expect_item);
  Status check_stuck();
  Status check_leftovers();
  Status check_delivered();

  void wake(Rank rank);
  void wake_server(int server);
  Channel& channel(Rank from, Rank to) { return channels_[key(from, to)]; }
  template <class... Args>
  static tl::unexpected<Error> invalid(fmt::format_string<Args...> format, Args&&... args) {
    return fail(ErrorCode::kInvalidProgram, format, std::forward<Args>(args)...);
  }
  static uint64_t key(Rank from, int to) {
    return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  }
  Op op_of(Rank rank, int lane, uint32_t item) const { return runs_[rank].at[lane].op(item); }
  std::string name(Rank rank, int lane, uint32_t item) const;
  std::string name(const Running& item) const { return name(item.rank, item.lane, item.item); }
  std::string name_cell(Buffer buffer, size_t cell) const;

  const Shape& shape_;
  std::span<const std::shared_ptr<const RankProgram>> programs_;
  const uint32_t pieces_;
  std::vector<RankRun> runs_;
  std::unordered_map<uint64_t, Channel> channels_;
  std::unordered_map<uint64_t, std::vector<VectorClock>> server_exposures_;  // rank, server
  std::unordered_map<uint64_t, uint32_t> server_exposures_used_;
  std::deque<Rank> queue_;
  /// By rank: of the puts into it, the last expect of the two servers that come latest.
  struct Inflow {
    int server = -1;
    uint32_t until = 0;  // items of its receive lane
    Rank sender = -1;
  };
  std::vector<std::array<Inflow, 2>> inflow_;
  std::string witness_;
  std::vector<OrderedPut>* puts_;
};

}  // namespace ibcoll
