#include "engine/execute/posted_call.h"

namespace ibcoll {

void PostedCall::skip(uint32_t operations) {
  LaneState& lane = lanes[static_cast<int>(Lane::kLocal)];
  lane.next = operations;
  gates = 0;
  for (uint32_t i = 0; i < operations; ++i)
    gates += static_cast<uint32_t>(lane.ops[i].kind == OpKind::kGateSignal);
  const StreamReader& streams = lane.streams;
  while (lane.stream < program->streams.size() &&
         streams[lane.stream].first + streams[lane.stream].count <= operations) {
    next_stream(lane, lane.stream + 1);
  }
  if (lane.stream_first < operations) {  // in the midst of it
    const Stream& stream = streams[lane.stream];
    lane.next = stream.first;
    lane.stream_position = operations - stream.first;
  } else if (operations < lane.size && lane.ops[operations].relaxed == Op::Relaxed::kInRun) {
    lane.in_run = true;
    lane.started = 0;
    lane.run_begin = operations;
    while (lane.ops[lane.run_begin].relaxed != Op::Relaxed::kFirstOfRun) --lane.run_begin;
  }
  complete[static_cast<size_t>(Lane::kLocal)] = lane.complete();
}

}  // namespace ibcoll
