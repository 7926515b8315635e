#include "integrations/mpi/under_way.h"

#include <mutex>

namespace ibcoll::mpi {

namespace {

/// Only those of the window move; the others are ready to when they come into it.
constexpr int kMostPosted = 2 * IBCOLL_CALLS_UNDER_WAY;

struct Busy {
  std::mutex mutex;
  Communicator* first = nullptr;  ///< those with operations under way
};

Busy& busy() {
  static auto* const all = new Busy;
  return *all;
}

// All with the mutex held:

void unlink(Operation& operation) {
  Communicator& on = *operation.own;
  (operation.previous != nullptr ? operation.previous->next : on.first) = operation.next;
  (operation.next != nullptr ? operation.next->previous : on.last) = operation.previous;
  operation.next = operation.previous = nullptr;
  --on.posted;
  if (on.first != nullptr) return;
  (on.previous != nullptr ? on.previous->next : busy().first) = on.next;
  if (on.next != nullptr) on.next->previous = on.previous;
  on.next = on.previous = nullptr;
}

/// The first one that waits for the engine. What it refuses has ended, with that.
void post_next(Communicator& on) {
  const WithoutPolling posting;
  Operation& operation = *on.queued;
  on.queued = operation.next;
  ++on.posted;
  --g_waiting;
  if (!operation.described.load(the_job())) {
    operation.refused = IBCOLL_ERR_NO_MEMORY;
    operation.why = kCannotPack;
  } else if (operation.refused = give_to_engine(operation); operation.refused != IBCOLL_OK) {
    operation.why = ibcoll_last_error();
  }
  // The others may be in that call.
  if (operation.refused != IBCOLL_OK) (void)ibcoll_group_cancel(on.group);
}

void post(Communicator& on) {
  while (on.queued != nullptr && on.posted < kMostPosted) post_next(on);
}

bool has_ended(const Operation& operation) {
  return operation.refused != IBCOLL_OK || ibcoll_may_be_done(operation.engine) != 0;
}

/// Only those of the group's window are looked at, as no other one can have ended.
void take_ended_of(Communicator& on, bool over, Operation*& ended) {
  uint32_t left = IBCOLL_CALLS_UNDER_WAY;
  for (Operation *at = on.first, *after = nullptr; at != on.queued && left > 0;
       at = after, --left) {
    after = at->next;
    if (!(over || has_ended(*at)) || at->claimed.exchange(true, std::memory_order_acquire))
      continue;
    unlink(*at);
    at->next = std::exchange(ended, at);
  }
  post(on);
}

}  // namespace

bool may_post(const Communicator& on) {
  const std::lock_guard lock(busy().mutex);
  return on.queued == nullptr && on.posted < kMostPosted;
}

void add_under_way(Operation& operation, bool posted) {
  Communicator& on = *operation.own;
  const std::lock_guard lock(busy().mutex);
  operation.next = nullptr;
  operation.previous = on.last;
  (on.last != nullptr ? on.last->next : on.first) = &operation;
  on.last = &operation;
  if (posted) {
    ++on.posted;
  } else {
    ++g_waiting;
    if (on.queued == nullptr) on.queued = &operation;
  }
  if (on.first != on.last) return;
  on.previous = nullptr;
  on.next = busy().first;
  if (on.next != nullptr) on.next->previous = &on;
  busy().first = &on;
}

void remove_under_way(Operation& operation) {
  Communicator& on = *operation.own;
  const std::lock_guard lock(busy().mutex);
  unlink(operation);
  post(on);
}

Operation* take_ended(bool over) {
  Operation* ended = nullptr;
  const std::unique_lock lock(busy().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  for (Communicator *on = busy().first, *after = nullptr; on != nullptr; on = after) {
    after = on->next;
    take_ended_of(*on, over, ended);
  }
  return ended;
}

void post_before_waiting_for(Operation& operation) {
  if (g_waiting == 0) return;
  const std::lock_guard lock(busy().mutex);
  for (Communicator* on = busy().first; on != nullptr; on = on->next) {
    const bool is_its_own = on == operation.own;
    while (on->queued != nullptr &&
           !(is_its_own && (operation.engine != nullptr || operation.refused != IBCOLL_OK)))
      post_next(*on);
  }
}

void post_all() {
  const std::lock_guard lock(busy().mutex);
  for (Communicator* on = busy().first; on != nullptr; on = on->next)
    while (on->queued != nullptr) post_next(*on);
}

ibcoll_status give_to_engine(Operation& operation) {
  if (operation.engine == nullptr) {
    const ibcoll_status status =
        ibcoll_call_init(operation.own->group, &operation.described.call, &operation.engine);
    if (status != IBCOLL_OK) return status;
  }
  return ibcoll_start(operation.engine);
}

}  // namespace ibcoll::mpi
