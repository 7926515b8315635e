#pragma once
/// Looks for ways to peers' ports in threads of its own. Where a machine is dead that takes seconds
/// (see find_way()), in which a rank has others to talk to.

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "verbs/route.h"

namespace ibcoll::verbs {

class WayFinder {
 public:
  using Lookup = std::function<Result<Way>(const PortAddress&)>;
  /// `lookup` finds a way, or says why there is none; called in any thread.
  static Result<std::unique_ptr<WayFinder>> create(Lookup lookup);
  /// Waits for the lookups under way.
  ~WayFinder();
  WayFinder(const WayFinder&) = delete;
  WayFinder& operator=(const WayFinder&) = delete;

  using Found = std::shared_ptr<const Way>;
  /// The way to a port; null: it is being looked for, ask again (see events()). Where there was
  /// none the last time, that is the error, and some milliseconds later it is looked for anew. So
  /// is one that was found before `not_before_ns`; until that has an end the old one counts.
  Result<Found> find(const PortAddress& peer, int64_t not_before_ns = 0);

  /// An epoll file: readable for one poll(2) or epoll_wait(2) after lookups have ended.
  int events() const { return events_.get(); }

 private:
  struct Entry {
    PortAddress peer;
    bool looking = false;
    Found way;
    std::optional<Error> error;  ///< of the last lookup
    int64_t since_ns = 0;        ///< when that ended
  };
  struct Worker {
    std::thread thread;
    bool done = false;
  };
  /// Lookups at a time. More wait: each is that of one port, which many ranks may have.
  static constexpr size_t kMost = 16;

  explicit WayFinder(Lookup lookup) : lookup_(std::move(lookup)) {}
  void look(Entry& entry, std::unique_lock<std::mutex>& lock);
  void run(Worker& worker);
  void look_for_next(std::unique_lock<std::mutex>& lock);
  void join_ended();

  const Lookup lookup_;
  UniqueFd ended_, events_;
  std::mutex mutex_;                      ///< guards what follows
  std::map<std::string, Entry> entries_;  ///< by the bytes of addresses
  std::deque<Entry*> queue_;
  std::list<Worker> workers_;
};

}  // namespace ibcoll::verbs
