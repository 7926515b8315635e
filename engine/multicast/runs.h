#pragma once
/// The multicasts that this rank is a member of: passes them on, keeps them until the program has
/// taken them, acknowledges them.

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/multicast/delivery_order.h"
#include "engine/multicast/outbox.h"
#include "engine/multicast/pool.h"
#include "engine/multicast/run.h"

namespace ibcoll {

class MulticastRuns {
 public:
  /// `own_is_done`: a copy of this rank's own message is there, or does not come (the error).
  MulticastRuns(const MulticastServices& services, MulticastOutbox& outbox, MulticastPool& pool,
                std::function<void(MulticastSend&, const Error*)> own_is_done);
  ~MulticastRuns();

  // What has been told. Fail (kMismatch) where it can't be right.
  Status start(const MulticastAssembly::Whole& message);
  Status take_role(const MulticastAssembly::Whole& message);
  Status take_local(const MulticastAssembly::Whole& message);
  Status acknowledge(const MulticastAssembly::Whole& message);
  Status note_late(const MulticastAssembly::Whole& message);
  void drop(const MulticastAssembly::Whole& message);
  Status skip(const MulticastAssembly::Whole& message);
  /// Hands this rank a copy of what it sends itself.
  void send_to_self(MulticastSend& send, const MulticastFacts& facts, MulticastId id, int members,
                    const std::byte* data);

  /// Ends this rank's own copy, which may not be there yet: the data are read no more.
  void give_up_own(MulticastId id);

  /// Goes on with all that can; true if something moved.
  bool advance();
  /// Tells masters whom is waited for.
  void look_after(int64_t now);
  bool busy() const { return !moving_.empty() || !hungry_.empty(); }
  /// Whether some of them are not acknowledged, or data are under way.
  bool has_open() const { return open_ != 0 || busy(); }
  void lose(Rank rank);

  /// Messages that are complete, in the order in which they are to be handed over.
  bool has_ready() const { return !ready_.empty(); }
  MulticastRun& take_ready();
  /// Nobody takes what is ready of that master.
  void drop_ready(Rank master);
  /// The program has taken what take_ready() gave, and needs it no longer.
  void free(MulticastRun& run);

  uint64_t announced() const { return announced_; }
  uint64_t received() const { return received_; }
  size_t size() const { return runs_.size(); }

 private:
  MulticastRun* find(const MulticastHead& head);
  MulticastRun& make(MulticastId id, const MulticastFacts& facts, Rank parent);
  void begin(MulticastRun& run, uint64_t previous, std::span<const std::byte> data,
             const std::vector<uint64_t>& all_previous);
  void announce(MulticastRun& run, const std::vector<uint64_t>& all_previous);
  RankSet below(const MulticastRun& run, const MulticastRun::Child& child) const;
  void give_up_child(MulticastRun& run, MulticastRun::Child& child);
  bool must_wait_for_earlier(const MulticastRun& run) const;
  bool feed_memory(MulticastRun& run);
  void fill(MulticastRun& run);
  void complete(MulticastRun& run);
  void look_at(MulticastRun& run);
  Status post(MulticastRun& run);
  bool needs(const MulticastRun& run, Rank rank) const;
  Rank lost_leader(const MulticastRun& run) const;
  Status post_feed(MulticastRun& run);
  void make_distribution(MulticastRun& run);
  Status post_distribution(MulticastRun& run, const Algorithm& algorithm);
  bool advance(MulticastRun& run);
  /// Whether leaders are told that have to do with this one, where it has no more to do with them:
  /// one of them may wait for what a dead rank was to announce.
  enum class Others : uint8_t { kKnow, kAreTold };
  void end(MulticastRun& run, ErrorCode why, Others others = Others::kKnow);
  void settle(MulticastRun& run);
  void hand_over(const std::vector<std::pair<Rank, uint64_t>>& ready);
  void send(Rank to, MulticastMailKind kind, const MulticastRun& run,
            std::span<const std::byte> body, std::span<const std::byte> data = {});

  const MulticastServices& services_;
  MulticastOutbox& outbox_;
  MulticastPool& pool_;
  DeliveryOrder order_;
  const std::function<void(MulticastSend&, const Error*)> own_is_done_;
  std::unordered_map<MulticastId, std::unique_ptr<MulticastRun>, MulticastIdHash> runs_;
  std::vector<MulticastRun*> moving_;  ///< have transfers under way
  std::deque<MulticastRun*> hungry_;   ///< wait for memory
  std::deque<MulticastRun*> ready_;
  std::unordered_map<Rank, int> kept_;  ///< by master: messages handed over that are still there
  size_t open_ = 0;                     ///< not acknowledged
  uint64_t announced_ = 0, received_ = 0;
};

/// The feed of a multicast's root by its master: both ends come to the same.
Status post_multicast_feed(const MulticastServices& services, MulticastTransfer& feed,
                           std::byte* data, size_t bytes);
std::unique_ptr<MulticastTransfer> make_multicast_feed(const MulticastServices& services,
                                                       MulticastId id, Rank root);

}  // namespace ibcoll
