#include "engine/schedule/expand.h"

namespace ibcoll {

std::array<std::vector<Item>, kLanes> expand(const RankProgram& program, uint32_t pieces) {
  std::array<std::vector<Item>, kLanes> items;
  // Of each operation: the item of its piece 0, and how far apart its pieces are (0: one item).
  struct Place {
    uint32_t first, stride;
  };
  std::array<std::vector<Place>, kLanes> places;
  const StreamReader streams(program.streams);
  size_t next_stream = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const OpReader ops(program.lanes[lane]);
    const auto size = static_cast<uint32_t>(program.lanes[lane].size());
    for (uint32_t op = 0; op < size;) {
      const auto begin = static_cast<uint32_t>(items[lane].size());
      const Stream* const stream =
          next_stream < program.streams.size() ? &streams[next_stream] : nullptr;
      if (stream == nullptr || static_cast<int>(stream->lane) != lane || stream->first != op) {
        places[lane].push_back({begin, 0});
        items[lane].push_back({op, 0, false, ops[op].relaxed, {}});
        ++op;
        continue;
      }
      for (uint32_t i = 0; i < stream->count; ++i) {
        places[lane].push_back({begin + i, stream->once ? 0 : stream->count});
      }
      for (uint32_t piece = 0; piece < (stream->once ? 1 : pieces); ++piece) {
        for (uint32_t i = 0; i < stream->count; ++i) {
          Item& item = items[lane].emplace_back();
          item.op = op + i;
          item.piece = piece;
          item.streamed = !stream->once;
          if (!stream->in_strands()) continue;
          item.relaxed = piece + i == 0 ? Op::Relaxed::kFirstOfRun : Op::Relaxed::kInRun;
        }
      }
      op += stream->count;
      ++next_stream;
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const OpReader ops(program.lanes[lane]);
    for (Item& item : items[lane]) {
      const Op& op = ops[item.op];
      for (int other = 0; other < kLanes; ++other) {
        if (op.after[other] == 0) continue;
        const Place place = places[other][op.after[other] - 1];
        const uint32_t piece = item.streamed ? item.piece : pieces - 1;
        item.after[other] = place.first + piece * place.stride + 1;
      }
    }
  }
  return items;
}

}  // namespace ibcoll
