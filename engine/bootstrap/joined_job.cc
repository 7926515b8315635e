#include "engine/bootstrap/joined_job.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "engine/base/log.h"
#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/meeting.h"
#include "engine/bootstrap/peer_watch.h"
#include "engine/bootstrap/process_end.h"

namespace ibcoll {
namespace {

constexpr double kGoodbyeSeconds = 1;

class JoinedBootstrap final : public Bootstrap {
 public:
  static Result<std::unique_ptr<Bootstrap>> create(ProcessManager& manager,
                                                   const JoinOptions& options) {
    Meeting meeting(manager, options);
    IBCOLL_TRY(meeting.hold(manager));
    auto self = std::make_unique<JoinedBootstrap>();
    IBCOLL_ASSIGN(self->block_, meeting.share_block());
    const std::vector<Rank>& here = self->block_->job_ranks();
    const auto place_of = [&](Rank rank) {
      return static_cast<Rank>(std::find(here.begin(), here.end(), rank) - here.begin());
    };
    self->rank_ = manager.rank();
    self->size_ = manager.size();
    self->leader_ = place_of(meeting.leader_rank());
    self->here_ = place_of(self->rank_);
    self->local_ = self->block_->bootstrap(self->here_);
    if (meeting.leader()) {
      IBCOLL_ASSIGN(self->agent_,
                    ControlAgent::start(self->rank_, *self->block_, meeting.take_links(),
                                        {options.silence_ms, open_process(getppid())}));
    } else {
      self->up_ = meeting.take_up();
      self->leader_pid_ = process_at(self->up_.fd());
      self->leader_process_ = open_process(self->leader_pid_);
      self->block_->set_watch([raw = self.get()] { raw->watch_leader(); });
    }
    return std::unique_ptr<Bootstrap>(std::move(self));
  }

  ~JoinedBootstrap() override {
    if (getpid() == process_) {  // a forked child has nothing to tell
      if (block_ && local_) block_->departed(here_, {});
      if (up_.open()) {
        up_.send(FrameKind::kBye, rank_);
        (void)up_.flush_by(deadline_in(kGoodbyeSeconds));
      }
    }
    agent_.reset();
  }

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  Status barrier() override { return allgather(nullptr, 0, nullptr); }
  void abort(const Failure& failure) override { local_->abort(failure); }
  std::optional<Failure> failure() const override { return block_->failure(); }
  void set_leaving(bool leaving) override { local_->set_leaving(leaving); }
  std::optional<Failure> absence(Rank rank) const override { return local_->absence(rank); }

  Status allgather(const void* mine, size_t bytes, void* all) override {
    const auto here = static_cast<size_t>(block_->ranks());
    if (here == static_cast<size_t>(size_)) return local_->allgather(mine, bytes, all);
    std::vector<std::byte> part(here * bytes);
    IBCOLL_TRY(local_->allgather(mine, bytes, part.data()));
    const size_t total = static_cast<size_t>(size_) * bytes;
    if (agent_) IBCOLL_TRY(agent_->exchange(part, bytes, {static_cast<std::byte*>(all), total}));
    if (total == 0) return local_->barrier();  // until the leader is back
    return local_->broadcast(leader_, all, total);
  }

 private:
  /// The leader says goodbye before it leaves; nobody else would notice its death.
  void watch_leader() {
    if (!up_.open() || up_.quiet()) return;
    const Result<std::optional<Frame>> frame = up_.take();
    if (frame && !*frame) return;
    up_.close();
    if (frame && (*frame)->kind == FrameKind::kBye) return;
    const Rank leader = block_->job_ranks()[static_cast<size_t>(leader_)];
    Failure failure{leader, ErrorCode::kPeerFailed, fmt::format("rank {} has died", leader)};
    // Other machines learn no more than that; all shall say the same.
    if (block_->ranks() == size_) {
      const auto status = status_of_ended(leader_pid_, leader_process_.get());
      if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0)
        return block_->departed(leader_, {});
      failure = end_of_rank(leader, leader_pid_, status);
    }
    block_->finish_report(leader_, failure);
    block_->decide(failure, here_);  // the leader was the one who would have asked the others
  }

  const pid_t process_ = getpid();
  Rank rank_ = 0, here_ = 0, leader_ = 0;  ///< the latter two by place on this machine
  int size_ = 1;
  std::unique_ptr<ControlBlock> block_;
  std::unique_ptr<LocalBootstrap> local_;
  std::unique_ptr<ControlAgent> agent_;  ///< of the leader
  ControlLink up_;                       ///< of the others: to it
  pid_t leader_pid_ = 0;
  UniqueFd leader_process_;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_through(ProcessManager& manager,
                                                const JoinOptions& options) {
  // Where Yama restricts ptrace, this lets the launcher's descendants on this machine, our peers,
  // copy from our memory. Fails harmlessly where there is no Yama.
  prctl(PR_SET_PTRACER, getppid());
  set_log_rank(manager.rank());
  return JoinedBootstrap::create(manager, options);
}

}  // namespace ibcoll
