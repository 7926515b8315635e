#pragma once
/// A maker of runs that mails make, which knows just enough for it.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <utility>

#include "engine/base/clock.h"
#include "engine/execute/arrival_runs.h"
#include "tests/api_job.h"
#include "tests/exchange.h"

namespace ibcoll::testing {

/// A bcast of rank 0 to all, which a mail makes on the others.
struct MadeRun {
  explicit MadeRun(const Shape& shape) : group(shape) {}
  GroupState group;
  Completion completion;
  std::vector<std::byte> data;
  uint64_t available = 0;
  bool entered = true;
};

/// Makes the runs that mails tell of, in which the block's bytes stand in the head.
class Runs final : public ArrivalRuns {
 public:
  explicit Runs(Context& context) : context_(context) { context.executor().serve(this); }
  ~Runs() override { leave(); }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  /// For a rank with several threads, of which one alone may do so at a time.
  void leave() {
    if (std::exchange(serves_, false)) context_.executor().serve(nullptr);
  }

  void take(std::span<const std::byte> mail, bool local) override {
    MailHeader header;
    std::memcpy(&header, mail.data(), sizeof header);
    if (local != context_.shape().same_server(header.from, context_.rank())) wrong = "wrong side";
    make(header.group, header.block_bytes);
    if (on_take) on_take();
  }
  bool advance() override {
    bool moved = false;
    for (MadeRun& run : runs) {
      if (!run.entered || !run.completion.done) continue;
      context_.executor().leave(run.group);
      run.entered = false;
      moved = true;
      if (on_finish) on_finish();
    }
    return moved;
  }
  bool busy() const override {
    return std::any_of(runs.begin(), runs.end(), [](const MadeRun& run) { return run.entered; });
  }
  void lost(Rank rank, const Failure& why) override {
    lost_ranks.push_back(rank);
    death = why.what;
    for (MadeRun& run : runs) {
      if (run.entered) run.group.lost.push_back(rank);
    }
    if (on_lost) on_lost();
  }

  /// Of rank 0 the bytes are `available` as the caller says.
  MadeRun& make(uint64_t number, size_t bytes, bool fills = false) {
    MadeRun& run = runs.emplace_back(context_.shape());
    run.group.key = kByArrivalKey | number;
    run.group.by_arrival = true;
    run.group.me = context_.rank();
    run.group.to_job = RankList::consecutive(0, static_cast<size_t>(context_.size()));
    context_.executor().enter(run.group);
    CallOptions options;
    options.algorithm = algorithm;
    options.pieces = 4;
    const auto plan =
        context_.world().plans().find(Collective::kBcast, static_cast<int64_t>(bytes), 0, options);
    if (!plan) {
      wrong = plan.error().message;
      return run;
    }
    Binding binding;
    const uint32_t cut = (*plan)->program->cut;
    binding.block_bytes = cut_slot_bytes(bytes, cut);
    if (cut > 1) binding.limit = bytes;
    binding.pieces = (*plan)->pieces;
    run.data.assign(bytes, kPoison);
    if (context_.rank() == 0 && !fills) fill(run, number);
    if (fills) binding.available = &run.available;
    binding[context_.rank() == 0 ? Buffer::kSend : Buffer::kRecv].base = run.data.data();
    programs_.push_back((*plan)->program);
    const Status posted =
        context_.executor().post(run.group, *programs_.back(), binding, run.completion);
    if (!posted) wrong = posted.error().message;
    return run;
  }
  static void fill(MadeRun& run, uint64_t number) {
    for (size_t i = 0; i < run.data.size(); ++i)
      run.data[i] = pattern(0, 0, i, static_cast<uint32_t>(number & 0xff));
  }
  static bool is_right(const MadeRun& run) {
    for (size_t i = 0; i < run.data.size(); ++i) {
      if (run.data[i] != pattern(0, 0, i, static_cast<uint32_t>(run.group.key & 0xff)))
        return false;
    }
    return true;
  }
  /// Tells all others of it.
  void tell(uint64_t number, size_t bytes) {
    MailHeader header{};
    header.group = kByArrivalKey | number;
    header.from = context_.rank();
    header.kind = MailKind::kMulticast;
    header.block_bytes = bytes;
    const auto mail = std::as_bytes(std::span(&header, 1));
    for (Rank rank = 0; rank < context_.size(); ++rank) {
      if (rank == context_.rank()) continue;
      const bool local = context_.shape().same_server(rank, context_.rank());
      while (!(local ? context_.job().local().offer_mail(rank, mail)
                     : context_.job().network()->mail(rank, mail, NetworkTransport::kUncounted)))
        context_.executor().progress();
    }
    context_.job().local().poll();
    if (context_.job().network() != nullptr) context_.job().network()->flush();
  }

  std::list<MadeRun> runs;
  std::vector<Rank> lost_ranks;
  std::string death, wrong;
  const char* algorithm = "linear";
  std::function<void()> on_take, on_finish, on_lost;

 private:
  Context& context_;
  bool serves_ = true;
  std::vector<std::shared_ptr<const RankProgram>> programs_;
};

/// Complains of what is wrong with all runs so far.
inline void check(const RankView& rank, const Runs& runs, size_t number) {
  if (!runs.wrong.empty()) rank.complain(runs.wrong);
  if (runs.runs.size() != number) rank.complain(fmt::format("{} runs", runs.runs.size()));
  for (const MadeRun& run : runs.runs) {
    if (run.entered) rank.complain("a run has not ended");
    if (run.completion.error != nullptr) rank.complain(run.completion.error->message);
    if (!Runs::is_right(run)) rank.complain("wrong data");
  }
}

inline void progress_until(const RankView& rank, const std::function<bool()>& over) {
  while (!over()) {
    if (!rank.good(rank.context.executor().progress_of_all(), "progress")) return;
  }
}

}  // namespace ibcoll::testing
