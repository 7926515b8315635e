#include "engine/multicast/multicasts.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/execute/waits.h"

namespace ibcoll {
namespace {

/// How often those that are late are looked for.
constexpr int64_t kBetweenLooksNs = 10'000'000;
/// The clock is read once in so many rounds.
constexpr uint32_t kRounds = 32;

/// True as long as it is there.
class Mark {
 public:
  explicit Mark(bool& mark) : mark_(mark) { mark_ = true; }
  ~Mark() { mark_ = false; }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  bool& mark_;
};

}  // namespace

Multicasts::Multicasts(const MulticastServices& services, const Limits& limits,
                       MulticastPool::Take take, MulticastPool::Give give)
    : services_(services),
      outbox_(services_),
      pool_(limits.memory, std::move(take), std::move(give)),
      runs_(services_, outbox_, pool_,
            [this](MulticastSend& send, const Error* error) { sends_.own_is_done(send, error); }),
      sends_(services_, outbox_, runs_, limits.window, limits.memory) {
  services_.executor.serve(this);
}

Multicasts::~Multicasts() { services_.executor.serve(nullptr); }

Result<std::shared_ptr<MulticastSend>> Multicasts::send(RankSet set, const void* data, size_t bytes,
                                                        const MulticastOptions& options) {
  Rank dead = -1;
  set.for_each([&](Rank rank) {
    if (services_.executor.has_lost(rank)) dead = rank;
  });
  if (dead >= 0)
    return fail(ErrorCode::kPeerFailed, "rank {} can't get a multicast: {}", dead,
                services_.executor.why_lost(dead));
  auto send = sends_.start(std::move(set), static_cast<const std::byte*>(data), bytes, options);
  push_out();
  hand_over();  // a copy of its own, with which nothing else may come
  return send;
}

void Multicasts::cancel(MulticastSend& send) {
  sends_.give_up(send, ErrorCode::kCancelled, "was cancelled");
  push_out();
}

/// What was sent outside of progress goes at once, and wakes those it is for.
void Multicasts::push_out() {
  if (services_.network != nullptr) services_.network->flush();
  services_.local.poll();
}

MulticastRun* Multicasts::take_message() {
  return runs_.has_ready() ? &runs_.take_ready() : nullptr;
}

void Multicasts::free(MulticastRun& run) { runs_.free(run); }

Result<MulticastRun*> Multicasts::wait_for_message(int64_t until_ns) {
  if (!runs_.has_ready()) IBCOLL_TRY(services_.executor.progress_of_all());
  // Another thread may take what has come.
  while (!runs_.has_ready() && !handler_) {
    if (!deaths_.empty()) look_for_gone(now_ns());
    if (const Error* const death = untold_death()) return tl::unexpected<Error>(*death);
    if (until_ns != 0 && now_ns() >= until_ns) break;
    // After a death nobody says who goes.
    const int64_t next_look = deaths_.empty() ? 0 : now_ns() + kLastDataNs;
    IBCOLL_TRY(
        wait(next_look == 0 || (until_ns != 0 && until_ns < next_look) ? until_ns : next_look));
  }
  return take_message();
}

/// A death that no wait has failed with yet; if all others have died, the last one each time.
const Error* Multicasts::untold_death() {
  if (told_deaths_ < deaths_.size()) return &deaths_[told_deaths_++].error;
  const bool alone =
      !deaths_.empty() && deaths_.size() + 1 == static_cast<size_t>(services_.job.ranks());
  return alone ? &deaths_.back().error : nullptr;
}

/// Until a message has come, or something else is to be looked at.
Status Multicasts::wait(int64_t until_ns) {
  Completion something;
  class Waiting {
   public:
    Waiting(std::vector<Completion*>& all, Completion& own) : all_(all), own_(own) {
      all_.push_back(&own_);
    }
    ~Waiting() { std::erase(all_, &own_); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::vector<Completion*>& all_;
    Completion& own_;
  };
  const Waiting waiting(waiting_, something);
  IBCOLL_TRY(services_.executor.wait(something, until_ns));
  if (something.error == nullptr || finishing_) return {};
  if (!runs_.has_ready()) return tl::unexpected<Error>(*something.error);
  // Messages come first: the next wait is told.
  const auto death = std::find_if(deaths_.begin(), deaths_.end(),
                                  [&](const End& one) { return &one.error == something.error; });
  told_deaths_ = std::min(told_deaths_, static_cast<size_t>(death - deaths_.begin()));
  return {};
}

void Multicasts::set_handler(Handler handler) {
  handler_ = std::move(handler);
  for (Completion* const waiting : waiting_) waiting->done = true;
  hand_over();
}

Status Multicasts::finish() {
  finishing_ = true;
  hand_over();
  const auto is_open = [this] { return !sends_.idle() || runs_.has_open() || !outbox_.empty(); };
  while (is_open()) {
    constexpr int64_t kLookAgainNs = 20'000'000;
    services_.executor.progress();
    if (is_open()) IBCOLL_TRY(wait(now_ns() + kLookAgainNs));
  }
  return {};
}

/// Kept for the round of progress: what follows from it may take mails itself.
void Multicasts::take(std::span<const std::byte> mail, bool) {
  ++mails_received_;
  if (!spare_.empty()) {
    inbox_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    inbox_.back().assign(mail.begin(), mail.end());
  } else {
    inbox_.emplace_back(mail.begin(), mail.end());
  }
}

Status Multicasts::take_in(std::span<const std::byte> mail) {
  IBCOLL_ASSIGN(const auto whole, assembly_.take(mail));
  if (!whole) return {};
  const MulticastHead& head = whole->head;
  const int ranks = services_.job.ranks();
  if (head.master < 0 || head.master >= ranks || head.from < 0 || head.from >= ranks)
    return fail(ErrorCode::kMismatch, "a multicast's message names a rank that is not there");
  const bool is_mine = head.master == services_.me;
  switch (head.kind) {
    case MulticastMailKind::kStart:
      return runs_.start(*whole);
    case MulticastMailKind::kRole:
      return runs_.take_role(*whole);
    case MulticastMailKind::kLocal:
      return runs_.take_local(*whole);
    case MulticastMailKind::kAck:
      return is_mine ? sends_.acknowledge(*whole) : runs_.acknowledge(*whole);
    case MulticastMailKind::kLate:
      return is_mine ? sends_.note_late(*whole) : runs_.note_late(*whole);
    case MulticastMailKind::kSkip:
      return runs_.skip(*whole);
    case MulticastMailKind::kDrop:
      runs_.drop(*whole);
      return {};
  }
  return fail(ErrorCode::kMismatch, "a multicast's message is of no kind that there is");
}

bool Multicasts::advance() {
  // What it does may make progress itself.
  if (advancing_) return false;
  const Mark inside(advancing_);
  bool moved = take_inbox();
  moved |= runs_.advance();
  moved |= sends_.advance();
  moved |= outbox_.advance();
  moved |= hand_over();
  if (++rounds_ % kRounds == 0 || !moved) look_after();
  if (services_.network != nullptr) services_.network->flush();
  return moved;
}

bool Multicasts::take_inbox() {
  if (inbox_.empty()) return false;
  taken_.swap(inbox_);
  for (std::vector<std::byte>& mail : taken_) {
    if (const Status taken = take_in(mail); !taken) services_.executor.give_up(taken.error());
    constexpr size_t kSpare = 64;
    if (spare_.size() < kSpare) spare_.push_back(std::move(mail));
  }
  taken_.clear();
  return true;
}

void Multicasts::look_after() {
  if (sends_.idle() && !runs_.has_open() && outbox_.empty()) return;
  const int64_t now = now_ns();
  if (now - looked_ns_ < kBetweenLooksNs) return;
  looked_ns_ = now;
  runs_.look_after(now);
  sends_.look_after(now);
  // Between servers no rank goes before the others but after a death.
  if (services_.network == nullptr || !deaths_.empty()) look_for_gone(now);
}

/// After a death ranks leave without waiting for each other. Whoever has gone answers nothing any
/// more; what it sent before may still be on its way.
void Multicasts::look_for_gone(int64_t now) {
  for (Rank rank = 0; rank < services_.job.ranks(); ++rank) {
    if (rank == services_.me || !services_.executor.has_gone(rank)) continue;
    const auto [since, first] = gone_since_.try_emplace(rank, now);
    if (first || now - since->second < kLastDataNs) continue;
    lose(rank);
    if (!deaths_.empty()) note_end(rank_has_left(rank));
  }
}

/// Others may still pass on what a rank had sent before its end. Once the program has been told
/// that nothing comes any more, nothing does.
void Multicasts::drop_what_is_relayed_late() {
  for (size_t i = 0; i < told_deaths_; ++i) runs_.drop_ready(deaths_[i].rank);
}

bool Multicasts::hand_over() {
  drop_what_is_relayed_late();
  if (!runs_.has_ready()) return false;
  if (finishing_ || handler_) {
    while (runs_.has_ready()) {
      MulticastRun& run = runs_.take_ready();
      if (!finishing_) handler_(run.message);
      runs_.free(run);
    }
    return true;
  }
  for (Completion* const waiting : waiting_) waiting->done = true;
  return false;
}

bool Multicasts::busy() const {
  return !inbox_.empty() || !outbox_.empty() || runs_.has_open() || !sends_.idle();
}

void Multicasts::lost(Rank rank, const Failure& why) {
  lose(rank);
  note_end(why);
}

/// Nothing comes of a rank any more, for which somebody may wait. Does nothing if that is known.
void Multicasts::note_end(const Failure& why) {
  if (!ended_.insert(why.culprit).second) return;
  deaths_.push_back({why.culprit,
                     {why.error_code(),
                      fmt::format("{}; nothing that it sends to sets comes any more", why.what)}});
  // All that wait now may wait for this rank. Where none does, or each has just been told of
  // another one, it is told to the next one.
  for (Completion* const waiting : waiting_) {
    if (waiting->done) continue;
    waiting->error = &deaths_.back().error;
    waiting->done = true;
    told_deaths_ = deaths_.size();
  }
}

void Multicasts::lose(Rank rank) {
  take_inbox();  // what it sent while it lived
  assembly_.lose(rank);
  runs_.lose(rank);
  sends_.lose(rank);
  outbox_.lose(rank);  // last: what follows from it may send to that rank
  hand_over();
}

}  // namespace ibcoll
