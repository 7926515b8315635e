#pragma once
/// The threads that use a context: those of the program, which it lets in, and those of the
/// engine's own.

#include <memory>

#include "engine/core/entry_guard.h"
#include "engine/execute/arrival_descriptor.h"
#include "engine/execute/executor.h"
#include "engine/execute/shared_waits.h"

namespace ibcoll {

class ContextThreads {
 public:
  /// `bell`: what wakes the rank. Both must outlive it.
  ContextThreads(Executor& executor, Bell& bell) : executor_(executor), bell_(bell) {}
  ~ContextThreads() { stop(); }
  ContextThreads(const ContextThreads&) = delete;
  ContextThreads& operator=(const ContextThreads&) = delete;

  /// An EntryGuard::Entry is held for the length of an API call.
  EntryGuard& guard() { return guard_; }
  /// Whether several threads may call at a time, and whether a thread of the engine's own makes
  /// progress. With either, every use of the context stands inside an Entry. With nobody inside.
  Status use(bool several, bool progress_thread);
  /// From now on until stop() there is a progress thread for peers that need this rank's help with
  /// their connections, whatever use() says.
  Status help_peers();
  /// Whether there is one that makes progress of calls.
  bool has_progress_thread() const { return has_progress_thread_; }
  /// Readable when something may have moved; made when it is first asked for.
  Result<ArrivalDescriptor*> descriptor();
  /// A call has been started that may not have finished.
  void note_started() {
    if (descriptor_ != nullptr) [[unlikely]]
      descriptor_->started();
  }
  /// Ends the engine's own threads: the calls under way go on when they are waited for.
  void stop();

 private:
  Executor& executor_;
  Bell& bell_;
  EntryGuard guard_;
  bool helps_peers_ = false, has_progress_thread_ = false;
  std::unique_ptr<SharedWaits> waits_;  ///< null: one thread, and no other
  std::unique_ptr<ArrivalDescriptor> descriptor_;
};

}  // namespace ibcoll
