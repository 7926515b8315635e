// Allgathers: rank 0 puts together what the machines give. Results reach all machines along a tree,
// so that rank 0 sends them to a few only. A leader whose source can't be reached, or is gone, asks
// rank 0 itself; so the tree needs no repair.

#include <cstring>

#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/gather_call.h"
#include "engine/bootstrap/packing.h"

namespace ibcoll {
namespace {

/// Another machine may be behind a wall that swallows what is sent to it: rank 0 is asked soon.
constexpr auto kConnecting = std::chrono::seconds(1);
/// A process that has connected is of this job, or says nothing; it may be late.
constexpr double kSourceSeconds = 30;

}  // namespace

/// Rank 0: one machine's part of an allgather; with the last one, everybody gets all of it.
void ControlAgent::gather(Rank leader, Frame frame) {
  gathered_[leader] = std::move(frame);
  // After what ends the job nobody goes on.
  if (decided_ || has_outlived() || gathered_.size() <= connections_.machines.size()) return;
  const auto call_of = [](const Frame& part) {
    return GatherCall{static_cast<uint64_t>(part.rank), static_cast<uint32_t>(part.code)};
  };
  const bool all_survive = told_survival_ && survivors_.size() == connections_.machines.size();
  const GatherCall call = call_of(gathered_[0]);
  for (const auto& [from, part] : gathered_) {
    if (const GatherCall theirs = call_of(part); theirs != call)
      return decide({from, ErrorCode::kMismatch, disagreement(0, call, from, theirs)});
  }
  auto all = assemble(call.bytes);
  gathered_.clear();
  if (all) all = pack(*all);
  if (!all)
    return decide(
        {me_, ErrorCode::kSystem,
         "what the machines have sent of an allgather is damaged, or rank 0 has no memory "
         "to put it together"});
  if (all_survive) block_.set_survives();
  publish(std::make_shared<const std::vector<std::byte>>(std::move(*all)));
}

/// By leader: where what its machine gives belongs among what all give.
std::map<Rank, std::vector<size_t>> ControlAgent::places_of_machines() const {
  const std::vector<Rank>& leader_of = connections_.leader_of;
  std::map<Rank, std::vector<size_t>> places;
  if (givers_) {
    for (size_t i = 0; i < givers_->size(); ++i)
      places[leader_of[static_cast<size_t>((*givers_)[i])]].push_back(i);
  } else {
    for (size_t rank = 0; rank < leader_of.size(); ++rank) places[leader_of[rank]].push_back(rank);
  }
  return places;
}

/// All that was gathered in the order of ranks; nothing where that can't be.
std::optional<std::vector<std::byte>> ControlAgent::assemble(size_t bytes) {
  const size_t givers = givers_ ? givers_->size() : connections_.leader_of.size();
  std::vector<std::byte> all(givers * bytes);
  if (bytes == 0) return all;
  std::vector<std::byte> part;
  for (const auto& [leader, places] : places_of_machines()) {
    part.resize(places.size() * bytes);
    if (!unpack(gathered_[leader].payload, part)) return std::nullopt;
    for (size_t i = 0; i < places.size(); ++i)
      std::memcpy(all.data() + places[i] * bytes, part.data() + i * bytes, bytes);
  }
  return all;
}

/// Gives the next result to this machine, and to those that get results from here.
void ControlAgent::publish(ControlConnection::Payload packed) {
  ++round_;
  if (!is_root_ && told_survival_ && !decided_) block_.set_survives();
  last_result_ = packed;
  for (const Rank leader : connections_.direct) {
    const auto machine = connections_.machines.find(leader);
    if (machine != connections_.machines.end())
      machine->second.send(FrameKind::kAll, round_, packed);
  }
  for (auto& [leader, branch] : branches_) branch.send(FrameKind::kAll, round_, packed);
  give(std::move(packed));
}

/// It may come twice: from rank 0, which was asked, and from the source after all.
void ControlAgent::take_result(Frame frame) {
  if (is_root_ || frame.rank != round_ + 1) return;
  publish(std::make_shared<const std::vector<std::byte>>(std::move(frame.payload)));
  if (!root_bye_ || round_ < *root_bye_) return;
  root_bye_.reset();
  connections_.root.close();
  left(root_rank_);
}

/// Rank 0's goodbye may be here before its last result: rank 0 stays until the connection is
/// closed, in case it is asked for that.
void ControlAgent::hear_bye_of_root(const Frame& bye) {
  if (bye.code > round_ && !has_outlived()) {
    root_bye_ = bye.code;
    return;
  }
  connections_.root.close();
  left(root_rank_);
}

/// It has stayed for as long as it can. The result may still come from the source.
void ControlAgent::root_ended_after_bye() {
  root_gone_ = true;
  if (source_state_ != Source::kSought && source_state_ != Source::kFound) left(root_rank_);
}

/// Rank 0: from now on, and what that leader lacks, which has had so many.
void ControlAgent::send_results_to(Rank leader, int32_t has) {
  const auto machine = connections_.machines.find(leader);
  if (machine == connections_.machines.end()) return;
  connections_.direct.insert(leader);
  if (has < round_) machine->second.send(FrameKind::kAll, round_, last_result_);
}

/// Of a leader that gets results from this one.
void ControlAgent::take_branch(CalledHandshake& handshake) {
  const Caller caller = handshake.caller();
  if (caller.resumes || caller.rank <= 0 || caller.rank >= block_.job_size() || caller.rank == me_)
    return handshake.refuse(
        {ErrorCode::kSystem, fmt::format("rank {} gets nothing from here", caller.rank)});
  ControlConnection& branch = branches_[caller.rank] = handshake.welcome(0);
  if (last_result_) branch.send(FrameKind::kAll, round_, last_result_);
}

void ControlAgent::call_source() {
  if (source_state_ != Source::kSought) return;
  const ResultSource& source = connections_.source;
  if (!source_attempt_) {
    Result<Attempt> attempt =
        Attempt::begin(source.address, source.port, options_.silence_ms / 2, connections_.token,
                       {me_, false}, 0, deadline_in(kSourceSeconds));
    if (!attempt) return lose_source();
    source_attempt_.emplace(std::move(*attempt));
    source_answers_until_ = Clock::now() + kConnecting;
  }
  const HandshakeState state = source_attempt_->advance();
  CallerHandshake& handshake = source_attempt_->handshake();
  if (state == HandshakeState::kDone && handshake.peer() == source.rank) {
    source_ = std::move(handshake.connection());
    source_state_ = Source::kFound;
    source_attempt_.reset();
    return;
  }
  const bool may_come = source_attempt_->connected() || Clock::now() < source_answers_until_;
  if (state != HandshakeState::kWaiting || !may_come) lose_source();
}

/// Rank 0 is asked instead, once something is waited for.
void ControlAgent::lose_source() {
  source_state_ = Source::kLost;
  source_attempt_.reset();
  const bool waits = [this] {
    const std::lock_guard lock(mutex_);
    return exchanging_;
  }();
  if (waits) ask_root();
}

void ControlAgent::ask_root() {
  if (source_state_ != Source::kLost) return;
  if (root_gone_) return left(root_rank_);
  source_state_ = Source::kReplaced;
  connections_.root.send(FrameKind::kAsk, round_);
}

}  // namespace ibcoll
