#include "engine/schedule/lane_cursor.h"

namespace ibcoll {

LaneCursor::LaneCursor(const OpList& ops, std::vector<Item> items)
    : ops_(ops),
      items_(std::move(items)),
      progress_(static_cast<uint32_t>(items_.empty() ? ops.size() : items_.size())) {}
LaneCursor::LaneCursor(LaneCursor&& other) noexcept = default;
LaneCursor& LaneCursor::operator=(LaneCursor&& other) noexcept = default;
LaneCursor::~LaneCursor() = default;

ProgramCursor::ProgramCursor(const RankProgram& program, uint32_t pieces)
    : ProgramCursor(program, program.streams.empty() ? std::array<std::vector<Item>, kLanes>()
                                                     : expand(program, pieces)) {}

ProgramCursor::ProgramCursor(const RankProgram& program,
                             std::array<std::vector<Item>, kLanes> items)
    : lanes_{LaneCursor(program.lanes[0], std::move(items[0])),
             LaneCursor(program.lanes[1], std::move(items[1])),
             LaneCursor(program.lanes[2], std::move(items[2]))} {}

uint64_t ProgramCursor::size() const {
  uint64_t items = 0;
  for (const LaneCursor& lane : lanes_) items += lane.size();
  return items;
}

}  // namespace ibcoll
