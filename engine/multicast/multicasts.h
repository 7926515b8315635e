#pragma once
/// Multicasts: messages of a rank to any set of ranks, with nothing made beforehand
/// (docs/architecture/multicasts.md).

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "engine/execute/arrival_runs.h"
#include "engine/multicast/outbox.h"
#include "engine/multicast/pool.h"
#include "engine/multicast/runs.h"
#include "engine/multicast/sends.h"

namespace ibcoll {

/// Of one rank. Used inside the executor's calls and turns only.
class Multicasts final : public ArrivalRuns {
 public:
  struct Limits {
    size_t memory = size_t{64} << 20;  ///< bytes of messages that have come and are not freed
    uint32_t window = 64;              ///< multicasts of this rank under way
  };
  using Handler = std::function<void(const MulticastMessage&)>;

  /// `take`, `give`: the memory for messages.
  Multicasts(const MulticastServices& services, const Limits& limits, MulticastPool::Take take,
             MulticastPool::Give give);
  ~Multicasts() override;
  Multicasts(const Multicasts&) = delete;
  Multicasts& operator=(const Multicasts&) = delete;

  /// Sends to a set; see MulticastSends::start.
  Result<std::shared_ptr<MulticastSend>> send(RankSet set, const void* data, size_t bytes,
                                              const MulticastOptions& options);
  /// Ends a send before its time.
  void cancel(MulticastSend& send);

  /// A message that has come; null: none. The caller's until free().
  MulticastRun* take_message();
  void free(MulticastRun& run);
  /// Waits for one; null: none has come until then (now_ns(); 0: for ever). Fails where none is
  /// there and a rank has died that those who wait have not been told of, or all others have.
  Result<MulticastRun*> wait_for_message(int64_t until_ns);
  /// From now on messages are handed to this, which may not use the engine; empty: to nobody.
  void set_handler(Handler handler);
  bool has_handler() const { return handler_ != nullptr; }

  /// Waits until all sends of this rank are over. Messages that come, and those that nobody has
  /// taken, are dropped from now on.
  Status finish();

  // ArrivalRuns
  void take(std::span<const std::byte> mail, bool local) override;
  bool advance() override;
  bool busy() const override;
  void lost(Rank rank, const Failure& why) override;

  const MulticastPool& pool() const { return pool_; }
  uint64_t sent() const { return sends_.sent(); }
  uint64_t received() const { return runs_.received(); }
  uint64_t announced() const { return runs_.announced(); }
  uint64_t mails_sent() const { return outbox_.sent(); }
  uint64_t mails_received() const { return mails_received_; }

 private:
  Status take_in(std::span<const std::byte> mail);
  bool take_inbox();
  bool hand_over();
  void drop_what_is_relayed_late();
  void push_out();
  Status wait(int64_t until_ns);
  const Error* untold_death();
  void note_end(const Failure& why);
  void look_after();
  void look_for_gone(int64_t now);
  void lose(Rank rank);

  const MulticastServices services_;
  MulticastOutbox outbox_;
  MulticastPool pool_;
  MulticastRuns runs_;
  MulticastSends sends_;
  MulticastAssembly assembly_;
  std::vector<std::vector<std::byte>> inbox_, taken_;
  std::vector<std::vector<std::byte>> spare_;  ///< memory of mails, for later ones
  Handler handler_;
  std::vector<Completion*> waiting_;  ///< for a message
  /// The end of a rank that might have sent one.
  struct End {
    Rank rank;
    Error error;
  };
  std::deque<End> deaths_;  ///< and of those that have left since
  size_t told_deaths_ = 0;  ///< of them
  bool advancing_ = false, finishing_ = false;
  uint64_t mails_received_ = 0;
  int64_t looked_ns_ = 0;
  std::map<Rank, int64_t> gone_since_;
  std::set<Rank> ended_;  ///< those in `deaths_`: whoever leaves may die after that
  uint32_t rounds_ = 0;
};

}  // namespace ibcoll
