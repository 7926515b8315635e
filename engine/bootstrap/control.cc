#include "engine/bootstrap/control.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <span>

#include "engine/base/pages.h"
#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/gather_call.h"
#include "engine/sharing/futex.h"

namespace ibcoll {
namespace {

constexpr int64_t kLongestSleepNs = 1'000'000'000;
/// How long rank 0, which decides, may take to answer. It may be slow but must be asked: another
/// word than its own would be another than that of the other machines. After a death another one
/// may have to take its place first.
constexpr std::chrono::seconds kLongestRelay{10}, kLongestRelayAfterDeath{30};
/// How long whoever started a rank may take to say how it died, and another machine, whose leader
/// may have to be replaced first.
constexpr std::chrono::seconds kLongestWord{2}, kLongestWordOfMachine{5};
constexpr int64_t kWordNapNs = 50'000'000;

/// What a rank gives to one round of an allgather, at most.
constexpr size_t kMostInRound = 4096 - sizeof(uint64_t);
size_t bank_bytes(size_t ranks) { return ranks * (sizeof(uint64_t) + kMostInRound); }

}  // namespace

Failure rank_has_left(Rank rank) {
  return {rank, ErrorCode::kPeerFailed,
          fmt::format("rank {} has left the job while others still wait for it", rank)};
}

/// How a rank ended that did not end in order.
struct ControlBlock::End {
  Shared<bool> noted;
  FailureText text;
};

/// Starts the shared memory; behind it two banks, the places of those who tell of failures, and the
/// Presence of each rank of the job. All zero at first. A bank holds what each rank takes the call
/// for (GatherCall), since ranks that do not agree shall find out in the first round, and room for
/// kMostInRound bytes of each. What they give to one round stands side by side there, so that small
/// records of many ranks take few pages. A rank writes bank b again only two rounds later, that is
/// after everybody has entered the round in between and so has read the bank: one rendezvous a
/// round is enough.
struct alignas(4096) ControlBlock::Header {
  alignas(64) Shared<uint64_t> rendezvous;  ///< see Rendezvous
  /// Changes whenever a waiter should look again; what waiters sleep on.
  Shared<uint32_t> changes;
  Shared<int32_t> departed;  ///< 1 + the rank that ended first
  Shared<bool> shared;       ///< see ControlBlock::shared()
  alignas(64) FirstFailure failure;
  FirstFailure proposal;     ///< where reports are relayed
  FirstFailure after_death;  ///< what ends a job that has survived its failure, a death
  Shared<uint32_t> ends_noted;
  Shared<uint32_t> elsewhere;  ///< of them those of ranks of other machines
  Shared<bool> asked_to_survive, survives;
  Shared<int32_t> leader;  ///< 1 + its rank in the job; 0: none
  std::array<char, 64> root_address;
  uint32_t home_bytes;
};

/// How many rounds are over, and how many ranks have arrived for the next one. One word: a rank
/// that goes away because of a failure takes its arrival back, unless all have come meanwhile; so
/// either all ranks go through a round, or none does.
struct Rendezvous {
  uint32_t round, arrived;

  static Rendezvous unpack(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
  }
  uint64_t pack() const { return uint64_t{round} << 32 | arrived; }
};

class ControlBootstrap final : public LocalBootstrap {
 public:
  ControlBootstrap(ControlBlock& block, Rank rank)
      : block_(block), rank_(rank), process_(getpid()) {}

  Rank rank() const override { return rank_; }
  int size() const override { return block_.ranks_; }
  bool shares_address_space() const override {
    return block_.sharing_ == ControlBlock::Sharing::kThreads;
  }
  std::optional<Failure> failure() const override { return block_.failure(); }
  void set_leaving(bool leaving) override {
    if (forked()) return;
    block_.set_presence(block_.job_rank(rank_), leaving ? Presence::kLeaving : Presence::kHere);
  }
  void set_gone() override {
    if (!forked()) block_.set_presence(block_.job_rank(rank_), Presence::kGone);
  }
  bool is_leaving(Rank rank) const override { return block_.presence(rank) == Presence::kLeaving; }
  bool has_left(Rank rank) const override { return block_.presence(rank) == Presence::kGone; }
  std::optional<Failure> absence(Rank rank) const override {
    switch (block_.presence(rank)) {
      case Presence::kHere:
        return std::nullopt;
      case Presence::kUnreachable:
        return Failure{rank, ErrorCode::kPeerFailed,
                       fmt::format("rank {} can't be reached: the control connection to its "
                                   "machine is down, and no data come either",
                                   rank)};
      default:
        return rank_has_left(rank);
    }
  }
  std::optional<Failure> end_of(Rank rank) const override { return block_.end_of(rank); }
  uint32_t ends_noted() const override { return block_.ends_noted(); }
  void set_survival(bool survives) override {
    if (survives && block_.relayed_) block_.ask_to_survive();
  }
  std::vector<Rank> ended() const override {
    std::vector<Rank> ranks;
    if (block_.ends_noted() == 0) return ranks;
    for (Rank rank = 0; rank < block_.ranks_; ++rank)
      if (block_.end_of(block_.job_rank(rank))) ranks.push_back(block_.job_rank(rank));
    for (const Failure& end : block_.ends_elsewhere()) ranks.push_back(end.culprit);
    return ranks;
  }
  Result<std::optional<int64_t>> settle(uint64_t question, int64_t proposal) override {
    IBCOLL_TRY(check_fork());
    IBCOLL_ASSIGN(const std::optional<int64_t> verdict,
                  block_.verdicts().settle({question, proposal}, block_.verdicts_given()));
    if (!verdict) block_.call_leader();
    return verdict;
  }
  std::optional<int64_t> verdict(uint64_t question) const override {
    return block_.verdicts().find(question);
  }
  void forget_verdict(uint64_t question) override {
    if (forked()) return;
    block_.verdicts().forget(question, block_.verdicts_given());
    if (block_.relayed_) block_.call_leader();
  }
  void fail_after_deaths() override { fails_after_deaths_ = true; }
  /// Its launcher watches, which ranks don't outlive.
  bool is_watched(Rank) const override { return true; }
  void abort(const Failure& failure) override {
    if (forked()) return;
    const bool of_another = failure.culprit >= 0 && failure.culprit != block_.job_rank(rank_);
    const bool died = failure.error_code() == ErrorCode::kPeerFailed && of_another;
    if (died) wait_for_word(failure);
    const std::optional<Failure> end = died ? block_.end_of(failure.culprit) : std::nullopt;
    if (block_.survives() && (end || (died && has_left(failure.culprit) && block_.first_end())))
      return;
    block_.report(end ? *end : died ? excuse(failure).value_or(failure) : failure, rank_);
    if (!block_.relayed_) return;
    const bool may_change = block_.survives() && block_.ends_noted() > 0;
    const auto until =
        std::chrono::steady_clock::now() + (may_change ? kLongestRelayAfterDeath : kLongestRelay);
    while (!block_.failure() && std::chrono::steady_clock::now() < until) {
      if (block_.watch_) block_.watch_();
      sched_yield();
    }
    // Whoever should have told the other machines is gone.
    Failure alone = failure;
    if (block_.survives()) alone.code = alone.error_code();  // else taken for one that is survived
    block_.decide(alone, rank_);
  }
  void end_after_death(const Failure& end) override {
    if (!forked()) block_.end_after_death(end, rank_);
  }
  Status barrier() override { return allgather(nullptr, 0, nullptr); }

  Status allgather(const void* mine, size_t bytes, void* all) override {
    return gather({bytes, 0}, static_cast<size_t>(size()), static_cast<size_t>(rank_), mine, all);
  }

  Status allgather_of(std::span<const Rank> givers, const void* mine, size_t bytes,
                      void* all) override {
    const auto here = std::lower_bound(givers.begin(), givers.end(), rank_);
    const bool gives = here != givers.end() && *here == rank_;
    const auto place = static_cast<size_t>(here - givers.begin());
    return gather({bytes, GatherCall::mark_of(givers)}, givers.size(),
                  gives ? std::optional(place) : std::nullopt, mine, all);
  }

  Status broadcast(Rank root, void* data, size_t bytes) override {
    IBCOLL_TRY(check_fork());
    auto* target = static_cast<std::byte*>(data);
    for (size_t done = 0; done < bytes;) {
      const size_t piece = std::min(bytes - done, kMostInRound);
      std::byte* const given = block_.data(rounds_++ % 2, 0, piece);
      if (rank_ == root) std::memcpy(given, target + done, piece);
      IBCOLL_TRY(meet());
      if (rank_ != root) std::memcpy(target + done, given, piece);
      done += piece;
    }
    return {};
  }

 private:
  /// An allgather to which `givers` ranks give something; `place`: which of them this one is.
  Status gather(const GatherCall& call, size_t givers, std::optional<size_t> place,
                const void* mine, void* all) {
    IBCOLL_TRY(check_fork());
    const size_t bytes = call.bytes;
    const auto* source = static_cast<const std::byte*>(mine);
    auto* target = static_cast<std::byte*>(all);
    size_t done = 0;
    do {
      const size_t piece = std::min(bytes - done, kMostInRound);
      const uint32_t bank = rounds_++ % 2;
      block_.calls(bank)[rank_] = call.pack();
      if (piece > 0 && place) std::memcpy(block_.data(bank, *place, piece), source + done, piece);
      IBCOLL_TRY(meet());
      for (Rank peer = 0; peer < size(); ++peer) {
        const GatherCall theirs = GatherCall::unpack(block_.calls(bank)[peer]);
        if (theirs == call) continue;
        return fail(ErrorCode::kMismatch, "{}",
                    disagreement(block_.job_rank(rank_), call, block_.job_rank(peer), theirs));
      }
      for (size_t giver = 0; giver < givers && piece > 0; ++giver)
        std::memcpy(target + giver * bytes + done, block_.data(bank, giver, piece), piece);
      done += piece;
    } while (done < bytes);
    return {};
  }

  Status check_fork() const {
    if (!forked()) return {};
    return fail(ErrorCode::kUnsupported, "this process is a fork of rank {}, and no rank itself",
                block_.job_rank(rank_));
  }

  /// Waits until all ranks are here.
  Status meet() {
    ControlBlock::Header& header = *block_.header_;
    IBCOLL_TRY(check_failure());
    const uint32_t round = arrive();
    if (is_over(round)) {
      block_.wake_all();
      return {};
    }
    while (true) {
      const uint32_t changes = header.changes.load(std::memory_order_acquire);
      // In this order: a rank that took part in this round can only depart after it.
      const int32_t departed = header.departed.load(std::memory_order_acquire);
      if (is_over(round) || survives_from_here()) return {};
      if (Status failed = check_failure(); !failed) return take_back(round) ? failed : Status();
      if (departed != 0) {
        abort(rank_has_left(block_.job_rank(departed - 1)));
        continue;
      }
      if (block_.watch_) block_.watch_();
      futex_wait(header.changes, changes, kLongestSleepNs);
    }
  }

  /// Whether this is the barrier from whose end on the job survives deaths, it has ended on all
  /// machines, and a rank has died since: it may be one that this machine waits for.
  bool survives_from_here() const {
    return !fails_after_deaths_ && block_.survives() && block_.ends_noted() > 0 &&
           !block_.failure();
  }

  bool is_over(uint32_t round) const {
    const Shared<uint64_t>& word = block_.header_->rendezvous;
    return Rendezvous::unpack(word.load(std::memory_order_acquire)).round != round;
  }

  /// The round that this rank has come to, which is over if it was the last one.
  uint32_t arrive() {
    Shared<uint64_t>& word = block_.header_->rendezvous;
    uint64_t bits = word.load(std::memory_order_relaxed);
    while (true) {
      const Rendezvous now = Rendezvous::unpack(bits);
      const bool last = now.arrived + 1 == static_cast<uint32_t>(size());
      const Rendezvous then =
          last ? Rendezvous{now.round + 1, 0} : Rendezvous{now.round, now.arrived + 1};
      if (word.compare_exchange_strong(bits, then.pack(), std::memory_order_acq_rel))
        return now.round;
    }
  }

  /// False: the round is over.
  bool take_back(uint32_t round) {
    Shared<uint64_t>& word = block_.header_->rendezvous;
    uint64_t bits = word.load(std::memory_order_acquire);
    while (Rendezvous::unpack(bits).round == round) {
      const Rendezvous without{round, Rendezvous::unpack(bits).arrived - 1};
      if (word.compare_exchange_strong(bits, without.pack(), std::memory_order_acq_rel))
        return true;
    }
    return false;
  }

  bool forked() const { return getpid() != process_; }

  /// What is to be said instead of a failure of another rank: that it is absent. One that has died
  /// while it served the others is not.
  std::optional<Failure> excuse(const Failure& failure) const {
    if (failure.code == ErrorCode::kRankDied && is_leaving(failure.culprit)) return std::nullopt;
    return absence(failure.culprit);
  }

  /// Whether the job's failure is known, and not merely another death, which the job may survive.
  bool is_failure_of_all(const Failure& failure) const {
    const std::optional<Failure> first = block_.failure();
    return first && (block_.relayed_ || first->code != ErrorCode::kRankDied ||
                     first->culprit == failure.culprit);
  }

  /// Whoever started the ranks knows how one died, a moment after its peers notice that it has.
  void wait_for_word(const Failure& failure) {
    if (block_.sharing_ == ControlBlock::Sharing::kThreads) return;
    Shared<uint32_t>& changes = block_.header_->changes;
    const auto until = std::chrono::steady_clock::now() +
                       (block_.survives() ? kLongestWordOfMachine : kLongestWord);
    while (true) {
      const uint32_t seen = changes.load(std::memory_order_acquire);
      if (block_.end_of(failure.culprit) || is_failure_of_all(failure) || excuse(failure) ||
          std::chrono::steady_clock::now() > until)
        return;
      if (block_.watch_) block_.watch_();
      futex_wait(changes, seen, kWordNapNs);
    }
  }

  Status check_failure() const {
    std::optional<Failure> failure = block_.failure();
    if (!failure && fails_after_deaths_) failure = block_.first_end();
    if (!failure) return {};
    return tl::unexpected<Error>(failure->error());
  }

  ControlBlock& block_;
  const Rank rank_;
  const pid_t process_;
  uint32_t rounds_ = 0;
  bool fails_after_deaths_ = false;
};

/// Where in the memory what is behind the banks begins.
struct ControlBlock::Layout {
  size_t failures, ends, elsewhere, processes, homes, verdicts, presence, bytes;

  Layout(size_t here, size_t job, bool relayed) {
    failures = sizeof(Header) + 2 * bank_bytes(here);
    ends = failures + 3 * (here + 1) * sizeof(Place);
    elsewhere = ends + here * sizeof(End);
    processes = round_up(elsewhere + (relayed ? kMostElsewhere * sizeof(End) : 0), 64);
    homes = processes + (relayed ? here * sizeof(WatchedProcess) : 0);
    verdicts = round_up(homes + (relayed ? kMostHomeBytes : 0), 64);
    presence = verdicts + Verdicts::bytes(job);
    bytes = presence + job * sizeof(Shared<Presence>);
  }
};

size_t ControlBlock::bytes_for(int ranks, int job_size) {
  const auto here = static_cast<size_t>(ranks), job = static_cast<size_t>(job_size);
  return Layout(here, job, here < job).bytes;
}

size_t ControlBlock::touched_bytes(int ranks, int job_size, size_t longest) {
  const auto here = static_cast<size_t>(ranks), job = static_cast<size_t>(job_size);
  const size_t bank = here * (sizeof(uint64_t) + std::min(longest, kMostInRound));
  const Layout layout(here, job, here < job);
  return sizeof(Header) + 2 * round_up(bank, page_bytes()) +
         round_up(layout.homes - layout.processes, page_bytes()) +
         round_up(job * sizeof(Shared<Presence>), page_bytes());
}

Status ControlBlock::map(int flags) {
  bytes_ = bytes_for(ranks_, job_size_);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | flags,
                      memory_.get(), 0);
  if (memory == MAP_FAILED)
    return fail_errno(fmt::format("cannot map {} bytes for {} ranks to meet", bytes_, ranks_));
  header_ = static_cast<Header*>(memory);
  const auto job = static_cast<size_t>(job_size_);
  const Layout layout(static_cast<size_t>(ranks_), job, relayed_);
  auto* const begin = static_cast<std::byte*>(memory);
  failures_ = reinterpret_cast<Place*>(begin + layout.failures);
  proposals_ = failures_ + writers();
  after_death_ = proposals_ + writers();
  ends_ = reinterpret_cast<End*>(begin + layout.ends);
  elsewhere_ = reinterpret_cast<End*>(begin + layout.elsewhere);
  processes_ = reinterpret_cast<WatchedProcess*>(begin + layout.processes);
  homes_ = begin + layout.homes;
  verdicts_ = Verdicts(begin + layout.verdicts, job);
  presence_ = reinterpret_cast<Shared<Presence>*>(begin + layout.presence);
  if (failure_fd_.valid()) return {};
  Verdicts::prepare(begin + layout.verdicts);  // this process makes the memory
  failure_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!failure_fd_.valid()) return fail_opening("cannot create an eventfd");
  return {};
}

Result<std::unique_ptr<ControlBlock>> ControlBlock::create(int ranks, Sharing sharing) {
  std::unique_ptr<ControlBlock> block(new ControlBlock);
  block->ranks_ = block->job_size_ = ranks;
  block->sharing_ = sharing;
  IBCOLL_TRY(block->map(MAP_ANONYMOUS));
  return block;
}

Result<std::unique_ptr<ControlBlock>> ControlBlock::create_passable(std::vector<Rank> job_ranks,
                                                                    int job_size) {
  UniqueFd memory(memfd_create("ibcoll-control", MFD_CLOEXEC));
  const size_t bytes = bytes_for(static_cast<int>(job_ranks.size()), job_size);
  // With memory behind it: a machine that has none left says so now.
  if (!memory.valid() || fallocate(memory.get(), 0, 0, static_cast<off_t>(bytes)) != 0)
    return fail_opening(
        fmt::format("cannot make {} bytes of shared memory for ranks to meet", bytes));
  return attach(std::move(job_ranks), job_size, std::move(memory), UniqueFd());
}

Result<std::unique_ptr<ControlBlock>> ControlBlock::attach(std::vector<Rank> job_ranks,
                                                           int job_size, UniqueFd memory,
                                                           UniqueFd reported) {
  std::unique_ptr<ControlBlock> block(new ControlBlock);
  block->ranks_ = static_cast<int>(job_ranks.size());
  block->job_size_ = job_size;
  block->relayed_ = block->ranks_ < job_size;
  block->job_ranks_ = std::move(job_ranks);
  block->memory_ = std::move(memory);
  block->failure_fd_ = std::move(reported);
  IBCOLL_TRY(block->map(0));
  return block;
}

ControlBlock::~ControlBlock() {
  if (header_ != nullptr) munmap(header_, bytes_);
}

std::unique_ptr<LocalBootstrap> ControlBlock::bootstrap(Rank rank) {
  return std::make_unique<ControlBootstrap>(*this, rank);
}

uint64_t* ControlBlock::calls(uint32_t bank) {
  return reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(header_ + 1) +
                                     bank * bank_bytes(static_cast<size_t>(ranks_)));
}

std::byte* ControlBlock::data(uint32_t bank, size_t giver, size_t piece) {
  return reinterpret_cast<std::byte*>(calls(bank) + ranks_) + giver * piece;
}

void ControlBlock::wake_all() {
  header_->changes.fetch_add(1, std::memory_order_release);
  futex_wake(header_->changes, INT_MAX);
}

void ControlBlock::report(const Failure& failure, int writer) {
  const auto number = static_cast<uint32_t>(writer);
  if (!(relayed_ ? header_->proposal.tell(proposals_, number, failure)
                 : header_->failure.tell(failures_, number, failure)))
    return;
  wake_all();
  eventfd_write(failure_fd(), 1);
}

void ControlBlock::end_after_death(const Failure& end, int writer) {
  if (header_->after_death.tell(after_death_, static_cast<uint32_t>(writer), end)) wake_all();
}

std::optional<Failure> ControlBlock::proposal() const { return header_->proposal.read(proposals_); }

void ControlBlock::decide(const Failure& failure, int writer) {
  if (header_->failure.tell(failures_, static_cast<uint32_t>(writer), failure)) wake_all();
}

void ControlBlock::set_presence(Rank job_rank, Presence presence) {
  presence_[job_rank].store(presence, std::memory_order_release);
  if (relayed_) eventfd_write(failure_fd(), 1);
}

Presence ControlBlock::presence(Rank job_rank) const {
  if (job_rank < 0 || job_rank >= job_size_) return Presence::kHere;
  return presence_[job_rank].load(std::memory_order_acquire);
}

void ControlBlock::set_shared() { header_->shared.store(true, std::memory_order_release); }

bool ControlBlock::shared() const { return header_->shared.load(std::memory_order_acquire); }

void ControlBlock::departed(Rank rank) {
  set_presence(job_rank(rank), Presence::kGone);
  int32_t none = 0;
  header_->departed.compare_exchange_strong(none, rank + 1, std::memory_order_acq_rel);
  wake_all();
}

bool ControlBlock::is_here(Rank job_rank) const {
  return job_ranks_.empty() ? job_rank >= 0 && job_rank < ranks_
                            : std::binary_search(job_ranks_.begin(), job_ranks_.end(), job_rank);
}

/// Null for a rank of another machine that nothing was noted of.
ControlBlock::End* ControlBlock::end_place(Rank job_rank) const {
  if (is_here(job_rank)) {
    const auto first = job_ranks_.begin();
    return &ends_[job_ranks_.empty() ? job_rank
                                     : std::lower_bound(first, job_ranks_.end(), job_rank) - first];
  }
  const uint32_t noted = header_->elsewhere.load(std::memory_order_acquire);
  for (End& end : std::span(elsewhere_, noted))
    if (end.text.culprit == job_rank) return &end;
  return nullptr;
}

bool ControlBlock::note_end(const Failure& end) {
  End* place = end_place(end.culprit);
  const bool here = is_here(end.culprit);
  if (place != nullptr && (!here || place->noted.load(std::memory_order_relaxed))) return false;
  if (!here) {
    const uint32_t noted = header_->elsewhere.load(std::memory_order_relaxed);
    if (!relayed_ || noted == kMostElsewhere) return false;
    place = &elsewhere_[noted];
  }
  place->text.fill(end);
  place->noted.store(true, std::memory_order_release);
  if (!here) header_->elsewhere.store(header_->elsewhere.load() + 1, std::memory_order_release);
  header_->ends_noted.fetch_add(1, std::memory_order_release);
  if (relayed_) wake_all();
  return true;
}

std::optional<Failure> ControlBlock::end_of(Rank job_rank) const {
  const End* const place = end_place(job_rank);
  if (place == nullptr || !place->noted.load(std::memory_order_acquire)) return std::nullopt;
  return place->text.read();
}

uint32_t ControlBlock::ends_noted() const {
  return header_->ends_noted.load(std::memory_order_acquire);
}

std::vector<Failure> ControlBlock::ends_elsewhere() const {
  std::vector<Failure> ends;
  const uint32_t noted = header_->elsewhere.load(std::memory_order_acquire);
  for (const End& end : std::span(elsewhere_, noted)) ends.push_back(end.text.read());
  return ends;
}

std::optional<Failure> ControlBlock::first_end() const {
  if (ends_noted() == 0) return std::nullopt;
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (auto end = end_of(job_rank(rank))) return end;
  const std::vector<Failure> elsewhere = ends_elsewhere();
  return elsewhere.empty() ? std::nullopt : std::optional(elsewhere.front());
}

void ControlBlock::ask_to_survive() {
  header_->asked_to_survive.store(true, std::memory_order_release);
}

bool ControlBlock::asked_to_survive() const {
  return header_->asked_to_survive.load(std::memory_order_acquire);
}

void ControlBlock::set_survives() { header_->survives.store(true, std::memory_order_release); }

bool ControlBlock::survives() const { return header_->survives.load(std::memory_order_acquire); }

Rank ControlBlock::leader() const { return header_->leader.load() - 1; }

bool ControlBlock::pass_lead(Rank before, Rank after) {
  int32_t expected = before + 1;
  return header_->leader.compare_exchange_strong(expected, after + 1);
}

void ControlBlock::set_root_address(const std::string& address) {
  std::array<char, 64>& text = header_->root_address;
  address.copy(text.data(), text.size() - 1);
}

std::string ControlBlock::root_address() const { return header_->root_address.data(); }

void ControlBlock::set_homes(std::span<const std::byte> packed) {
  if (!relayed_ || packed.size() > kMostHomeBytes) return;
  std::memcpy(homes_, packed.data(), packed.size());
  header_->home_bytes = static_cast<uint32_t>(packed.size());
}

ControlHomes ControlBlock::homes() const { return unpack_homes({homes_, header_->home_bytes}); }

void ControlBlock::set_process(Rank rank, const WatchedProcess& process) {
  processes_[rank] = process;
}

WatchedProcess ControlBlock::process(Rank rank) const { return processes_[rank]; }

std::optional<Failure> ControlBlock::failure() const {
  std::optional<Failure> first = header_->failure.read(failures_);
  return first && header_->after_death.present() ? header_->after_death.read(after_death_) : first;
}

}  // namespace ibcoll
