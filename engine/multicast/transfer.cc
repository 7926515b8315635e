#include "engine/multicast/transfer.h"

namespace ibcoll {

MulticastTransfer::MulticastTransfer(Executor& executor, Shape shape, Rank me,
                                     std::vector<Rank> to_job, uint64_t key)
    : executor_(executor), group_(std::move(shape)) {
  group_.key = key;
  group_.by_arrival = true;
  group_.me = me;
  group_.to_job = std::move(to_job);
  executor_.enter(group_);
}

MulticastTransfer::~MulticastTransfer() { executor_.leave(group_); }

Status MulticastTransfer::post(ProgramPtr program, std::byte* data, size_t bytes, uint32_t pieces,
                               uint32_t agreed, const uint64_t* available) {
  for (const auto& lane : program->lanes) {
    for (const Op& op : lane) {
      // Of broadcasts no operation names a server.
      if (op.peer >= 0 && group_.to_job[op.peer] < 0) {
        return fail(ErrorCode::kInternal, "{} has to do with rank {} of {}, whom nobody has named",
                    program->algorithm, op.peer, group_.shape.ranks());
      }
    }
  }
  program_ = std::move(program);
  bytes_ = bytes;
  pieces_ = pieces;
  Binding binding;
  binding.block_bytes = cut_slot_bytes(bytes, program_->cut);
  binding.limit = program_->cut > 1 ? bytes : UINT64_MAX;
  binding.pieces = pieces;
  binding[Buffer::kSend].base = binding[Buffer::kRecv].base = data;
  binding.available = available;
  // Ranks know different parts of the shape, which the program's hash is of.
  binding.meaning = static_cast<uint32_t>(program_->hash) ^ agreed;
  Status posted = executor_.post(group_, *program_, binding, completion_);
  posted_ = posted.has_value();
  return posted;
}

bool MulticastTransfer::has_received() const {
  if (!posted_ || completion_.error != nullptr) return false;
  if (completion_.done) return true;
  const PostedCall* const call = completion_.call;
  if (call == nullptr || call->queued) return false;
  // What comes from other servers comes in the receive lane, and to those who get nothing from
  // there in the local one, in which they have nothing else to do.
  const LaneState& receive = call->lanes[static_cast<int>(Lane::kRecv)];
  return receive.size != 0 && receive.finished();
}

uint64_t MulticastTransfer::received() const {
  if (!posted_) return 0;
  if (completion_.done) return completion_.error == nullptr ? bytes_ : 0;
  const PostedCall* const call = completion_.call;
  if (call == nullptr || call->queued) return 0;
  const LaneState& receive = call->lanes[static_cast<int>(Lane::kRecv)];
  const LaneState& lane = receive.size != 0 ? receive : call->lanes[static_cast<int>(Lane::kLocal)];
  return lane.finished() ? bytes_ : piece_begin(*program_, bytes_, lane.piece, pieces_);
}

void MulticastTransfer::lose(Rank rank) {
  if (!group_.has_lost(rank)) group_.lost.push_back(rank);
}

void MulticastTransfer::end(const Failure& why) { executor_.end_group(group_, why); }

}  // namespace ibcoll
