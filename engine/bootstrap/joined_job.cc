#include "engine/bootstrap/joined_job.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "engine/base/log.h"
#include "engine/base/units.h"
#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/machine.h"

namespace ibcoll {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kConnectSeconds = 3;  // to one address
constexpr int kAnswerSeconds = 5;   // of a process that has connected
constexpr size_t kDistributed = 4000;

/// Where rank 0 is, as the launcher passes it on: "TOKEN/PORT/ADDRESS/ADDRESS...".
struct RootPlace {
  JobToken token{};
  int port = 0;
  std::vector<std::string> addresses;

  std::string text() const {
    std::string text = fmt::format("{:016x}{:016x}/{}", token[0], token[1], port);
    for (const std::string& address : addresses) {
      if (text.size() + address.size() + 1 > ProcessManager::kMaxText) break;
      text += "/" + address;
    }
    return text;
  }

  static Result<RootPlace> parse(const std::string& text) {
    RootPlace place;
    const std::vector<std::string_view> parts = split(text, '/');
    if (parts.size() < 2 || parts[0].size() != 32)
      return fail(ErrorCode::kSystem, "the launcher gives \"{}\" as rank 0's address", text);
    const std::string token(parts[0]), port(parts[1]);
    place.token = {std::strtoull(token.substr(0, 16).c_str(), nullptr, 16),
                   std::strtoull(token.substr(16).c_str(), nullptr, 16)};
    place.port = static_cast<int>(std::strtol(port.c_str(), nullptr, 10));
    place.addresses.assign(parts.begin() + 2, parts.end());
    return place;
  }
};

std::span<const std::byte> bytes_of(const JobToken& token) {
  return std::as_bytes(std::span(token));
}

/// How the processes of a job find each other; see the header.
class Meeting {
 public:
  Meeting(ProcessManager& manager, const JoinOptions& options)
      : options_(options), me_(manager.rank()), size_(manager.size()) {}

  Status hold(ProcessManager& manager) {
    IBCOLL_TRY(manager.rank() == 0 ? open_job(manager) : find_job(manager));
    if (leader_) {
      const Status met = me_ == 0 ? gather_everybody() : gather_machine();
      if (!met) tell_all(met.error());
      return met;
    }
    return wait_for_leader();
  }

  /// The ranks on this machine, ascending.
  std::vector<Rank> here() const {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < size_; ++rank)
      if (links_.leader_of[rank] == links_.leader_of[me_]) ranks.push_back(rank);
    return ranks;
  }
  bool several_machines() const {
    return std::any_of(links_.leader_of.begin(), links_.leader_of.end(),
                       [](Rank leader) { return leader != 0; });
  }

  /// The memory the ranks of this machine meet in.
  Result<std::unique_ptr<ControlBlock>> share_block() {
    if (!leader_) {
      UniqueFd descriptors[2];
      IBCOLL_TRY(up_.receive_descriptors(descriptors));
      return ControlBlock::attach(here(), several_machines(), std::move(descriptors[0]),
                                  std::move(descriptors[1]));
    }
    auto block = ControlBlock::create_passable(here(), several_machines());
    if (!block) {
      tell_all(block.error());
      return block;
    }
    for (auto& [rank, link] : links_.members) {
      IBCOLL_TRY(link.send(FrameKind::kGo, me_, std::as_bytes(std::span(links_.leader_of))));
      const int descriptors[] = {(*block)->memory_fd(), (*block)->failure_fd()};
      IBCOLL_TRY(link.send_descriptors(descriptors));
    }
    return block;
  }

  bool leader() const { return leader_; }
  Rank leader_rank() const { return links_.leader_of[me_]; }
  ControlLinks take_links() { return std::move(links_); }
  ControlLink take_up() { return std::move(up_); }

 private:
  std::string socket_name() const {
    return fmt::format("ibcoll-{:016x}{:016x}-{}", place_.token[0], place_.token[1],
                       options_.machine.empty() ? fmt::format("{}", this_machine().pid_namespace)
                                                : options_.machine);
  }

  Status open_job(ProcessManager& manager) {
    leader_ = true;
    if (getrandom(place_.token.data(), sizeof place_.token, 0) != sizeof place_.token)
      return fail_errno("cannot make a random token");
    bool taken = false;
    IBCOLL_ASSIGN(local_, ControlListener::local(socket_name(), taken));
    if (size_ > 1) {
      IBCOLL_ASSIGN(network_, ControlListener::network());
      place_.port = network_.port();
      place_.addresses = own_addresses();
    }
    IBCOLL_TRY(manager.broadcast(place_.text()));
    return {};
  }

  Status find_job(ProcessManager& manager) {
    IBCOLL_ASSIGN(const std::string text, manager.broadcast(""));
    IBCOLL_ASSIGN(place_, RootPlace::parse(text));
    const auto until = Clock::now() + std::chrono::seconds(kAnswerSeconds);
    while (true) {
      bool taken = false;
      IBCOLL_ASSIGN(local_, ControlListener::local(socket_name(), taken));
      leader_ = !taken;
      if (leader_) return connect_to_root();
      // Somebody leads this machine; it may have named its socket but not listen yet.
      Result<ControlLink> link = connect_local(socket_name());
      if (link) {
        up_ = std::move(*link);
        return up_.send(FrameKind::kHello, me_, bytes_of(place_.token));
      }
      if (Clock::now() > until) return tl::unexpected<Error>(link.error());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Status connect_to_root() {
    std::vector<std::string> tried;
    for (const std::string& address : place_.addresses) {
      Result<ControlLink> link = connect_network(address, place_.port, kConnectSeconds);
      if (!link) {
        tried.push_back(link.error().message);
        continue;
      }
      // Addresses of bridges and the like mean another host here: only rank 0 answers rightly.
      link->set_limit(kAnswerSeconds);
      if (link->send(FrameKind::kHello, me_, bytes_of(place_.token))) {
        const Result<Frame> answer = link->receive(sizeof place_.token);
        if (answer && answer->kind == FrameKind::kHello && is_token(*answer)) {
          link->set_limit(0);
          links_.root = std::move(*link);
          return {};
        }
      }
      tried.push_back(fmt::format("{} port {} is not rank 0", address, place_.port));
    }
    return fail(ErrorCode::kSystem, "rank {} can't reach rank 0 by TCP: {}", me_,
                fmt::join(tried, "; "));
  }

  bool is_token(const Frame& hello) const {
    return hello.payload.size() == sizeof place_.token &&
           std::memcmp(hello.payload.data(), place_.token.data(), sizeof place_.token) == 0;
  }

  /// Takes a connection; strangers are sent away.
  std::optional<std::pair<Rank, ControlLink>> take(ControlListener& listener, bool answer) {
    Result<ControlLink> link = listener.accept();
    if (!link) return std::nullopt;
    link->set_limit(kAnswerSeconds);
    const Result<Frame> hello = link->receive(sizeof place_.token);
    if (!hello || hello->kind != FrameKind::kHello || !is_token(*hello) || hello->rank < 0 ||
        hello->rank >= size_)
      return std::nullopt;
    if (answer && !link->send(FrameKind::kHello, me_, bytes_of(place_.token))) return std::nullopt;
    link->set_limit(0);
    return std::pair(hello->rank, std::move(*link));
  }

  /// Rank 0: until all ranks have said where they are.
  Status gather_everybody() {
    links_.leader_of.assign(static_cast<size_t>(size_), -1);
    links_.leader_of[0] = 0;
    int missing = size_ - 1;
    const auto until = Clock::now() + std::chrono::seconds(options_.limit_s);
    const auto enter = [&](Rank rank, Rank leader) {
      if (links_.leader_of[rank] < 0) --missing;
      links_.leader_of[rank] = leader;
    };
    while (missing > 0) {
      std::vector<pollfd> watched{{local_.fd(), POLLIN, 0}, {network_.fd(), POLLIN, 0}};
      std::vector<std::pair<Rank, ControlLink*>> links;
      for (auto* group : {&links_.machines, &links_.members}) {
        for (auto& [rank, link] : *group) {
          watched.push_back({link.fd(), POLLIN, 0});
          links.emplace_back(rank, &link);
        }
      }
      if (poll(watched.data(), watched.size(), 200) < 0 && errno != EINTR)
        return fail_errno("cannot wait for the other ranks");
      for (size_t i = 0; i < links.size(); ++i) {
        if (watched[i + 2].revents == 0) continue;
        const auto [leader, link] = links[i];
        const Result<Frame> frame = link->receive();
        if (!frame) return fail(ErrorCode::kPeerFailed, "rank {} has died", leader);
        if (frame->kind == FrameKind::kFailure)
          return fail(static_cast<ErrorCode>(frame->code), "{}", frame->text());
        if (frame->kind == FrameKind::kJoin && frame->rank >= 0 && frame->rank < size_)
          enter(frame->rank, leader);
      }
      if (watched[0].revents != 0) {
        if (auto entry = take(local_, false)) {
          enter(entry->first, 0);
          links_.members.insert_or_assign(entry->first, std::move(entry->second));
        }
      }
      if (watched[1].revents != 0) {
        if (auto entry = take(network_, true)) {
          enter(entry->first, entry->first);
          links_.machines.insert_or_assign(entry->first, std::move(entry->second));
        }
      }
      if (missing > 0 && Clock::now() > until) {
        const auto first = std::find(links_.leader_of.begin(), links_.leader_of.end(), -1);
        return fail(ErrorCode::kPeerFailed,
                    "{} of {} ranks did not come within {} s, rank {} first", missing, size_,
                    options_.limit_s, first - links_.leader_of.begin());
      }
    }
    for (auto& [rank, link] : links_.machines) {
      IBCOLL_TRY(link.send(FrameKind::kGo, me_, std::as_bytes(std::span(links_.leader_of))));
    }
    return {};
  }

  /// Another machine's leader: until rank 0 says that everybody is there.
  Status gather_machine() {
    while (true) {
      std::vector<pollfd> watched{{local_.fd(), POLLIN, 0}, {links_.root.fd(), POLLIN, 0}};
      for (auto& [rank, link] : links_.members) watched.push_back({link.fd(), POLLIN, 0});
      if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR)
        return fail_errno("cannot wait for the other ranks");
      size_t at = 2;
      for (const auto& [rank, link] : links_.members) {
        if (watched[at++].revents == 0) continue;
        const std::string text = fmt::format("rank {} has died", rank);
        (void)links_.root.send(FrameKind::kFailure, rank, std::as_bytes(std::span(text)),
                               static_cast<int32_t>(ErrorCode::kPeerFailed));
        return fail(ErrorCode::kPeerFailed, "{}", text);
      }
      if (watched[0].revents != 0) {
        if (auto entry = take(local_, false)) {
          IBCOLL_TRY(links_.root.send(FrameKind::kJoin, entry->first));
          links_.members.insert_or_assign(entry->first, std::move(entry->second));
        }
      }
      if (watched[1].revents == 0) continue;
      const Result<Frame> frame = links_.root.receive();
      if (!frame) return fail(ErrorCode::kPeerFailed, "rank 0 has died");
      return take_go(*frame);
    }
  }

  Status wait_for_leader() {
    IBCOLL_ASSIGN(const Frame frame, up_.receive());
    return take_go(frame);
  }

  Status take_go(const Frame& frame) {
    if (frame.kind == FrameKind::kFailure)
      return fail(static_cast<ErrorCode>(frame.code), "{}", frame.text());
    if (frame.kind != FrameKind::kGo ||
        frame.payload.size() != static_cast<size_t>(size_) * sizeof(Rank))
      return fail(ErrorCode::kSystem,
                  "a control message that can't be: the ranks run different "
                  "versions of ibcoll");
    links_.leader_of.resize(static_cast<size_t>(size_));
    std::memcpy(links_.leader_of.data(), frame.payload.data(), frame.payload.size());
    return {};
  }

  /// Joining has failed: nobody shall wait for the rest.
  void tell_all(const Error& error) {
    for (auto* group : {&links_.machines, &links_.members}) {
      for (auto& [rank, link] : *group) {
        (void)link.send(FrameKind::kFailure, me_, std::as_bytes(std::span(error.message)),
                        static_cast<int32_t>(error.code));
      }
    }
  }

  const JoinOptions& options_;
  const Rank me_;
  const int size_;
  RootPlace place_;
  bool leader_ = false;
  ControlListener local_, network_;
  ControlLinks links_;
  ControlLink up_;  ///< of a member: to its leader
};

class JoinedBootstrap final : public Bootstrap {
 public:
  static Result<std::unique_ptr<Bootstrap>> create(std::unique_ptr<ProcessManager> manager,
                                                   const JoinOptions& options) {
    Meeting meeting(*manager, options);
    IBCOLL_TRY(meeting.hold(*manager));
    auto self = std::make_unique<JoinedBootstrap>();
    IBCOLL_ASSIGN(self->block_, meeting.share_block());
    const std::vector<Rank>& here = self->block_->job_ranks();
    const auto place_of = [&](Rank rank) {
      return static_cast<Rank>(std::find(here.begin(), here.end(), rank) - here.begin());
    };
    self->rank_ = manager->rank();
    self->size_ = manager->size();
    self->leader_ = place_of(meeting.leader_rank());
    self->here_ = place_of(self->rank_);
    self->several_machines_ = meeting.several_machines();
    self->local_ = self->block_->bootstrap(self->here_);
    if (meeting.leader()) {
      IBCOLL_ASSIGN(self->agent_,
                    ControlAgent::start(self->rank_, *self->block_, meeting.take_links()));
    } else {
      self->up_ = meeting.take_up();
      self->block_->set_watch([raw = self.get()] { raw->watch_leader(); });
    }
    self->manager_ = std::move(manager);
    return std::unique_ptr<Bootstrap>(std::move(self));
  }

  ~JoinedBootstrap() override {
    if (block_ && local_) block_->departed(here_, {});
    if (up_.open()) (void)up_.send(FrameKind::kBye, rank_);
    agent_.reset();
  }

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  Status barrier() override { return allgather(nullptr, 0, nullptr); }
  void abort(const Failure& failure) override { local_->abort(failure); }
  std::optional<Failure> failure() const override { return block_->failure(); }

  Status allgather(const void* mine, size_t bytes, void* all) override {
    if (!several_machines_) return local_->allgather(mine, bytes, all);
    const auto here = static_cast<size_t>(block_->ranks());
    std::vector<std::byte> part(std::max(here * bytes, here * kDistributed));
    IBCOLL_TRY(local_->allgather(mine, bytes, part.data()));
    auto* target = static_cast<std::byte*>(all);
    const size_t total = static_cast<size_t>(size_) * bytes;
    if (agent_)
      IBCOLL_TRY(agent_->exchange(std::span(part).first(here * bytes), bytes, {target, total}));
    size_t done = 0;
    do {  // the leader's piece is what counts
      const size_t piece = std::min(total - done, kDistributed);
      IBCOLL_TRY(local_->allgather(target + done, piece, part.data()));
      if (!agent_ && piece > 0)
        std::memcpy(target + done, part.data() + static_cast<size_t>(leader_) * piece, piece);
      done += piece;
    } while (done < total);
    return {};
  }

 private:
  /// The leader says goodbye before it leaves; nobody else would notice its death.
  void watch_leader() {
    if (!up_.open() || up_.quiet()) return;
    const Result<Frame> frame = up_.receive();
    up_.close();
    const Rank leader = block_->job_ranks()[static_cast<size_t>(leader_)];
    if (frame && frame->kind == FrameKind::kBye) return;
    const Failure failure{leader, ErrorCode::kPeerFailed, fmt::format("rank {} has died", leader)};
    block_->finish_report(leader_, failure);
    block_->decide(failure, here_);  // the leader was the one who would have asked the others
  }

  Rank rank_ = 0, here_ = 0, leader_ = 0;  ///< the latter two by place on this machine
  int size_ = 1;
  bool several_machines_ = false;
  std::unique_ptr<ProcessManager> manager_;  ///< left last
  std::unique_ptr<ControlBlock> block_;
  std::unique_ptr<Bootstrap> local_;
  std::unique_ptr<ControlAgent> agent_;  ///< of the leader
  ControlLink up_;                       ///< of the others: to it
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_through(std::unique_ptr<ProcessManager> manager,
                                                const JoinOptions& options) {
  // Where Yama restricts ptrace, this lets the launcher's descendants on this machine, our peers,
  // copy from our memory. Fails harmlessly where there is no Yama.
  prctl(PR_SET_PTRACER, getppid());
  set_log_rank(manager->rank());
  return JoinedBootstrap::create(std::move(manager), options);
}

}  // namespace ibcoll
