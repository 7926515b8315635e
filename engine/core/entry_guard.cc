#include "engine/core/entry_guard.h"

#include <pthread.h>

#include "engine/execute/shared_waits.h"

namespace ibcoll {
namespace {

constexpr const char* kFromHandler =
    "a handler runs inside of a call on its context, and can make none: start what it is to start "
    "when that call has come back";

/// The innermost handler that this thread is in.
thread_local const InsideHandler* t_handler = nullptr;

/// How often this process is a fork of one that had a guard.
std::atomic<uint32_t> g_forks{0};

uint32_t watch_forks() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    pthread_atfork(nullptr, nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); });
  });
  return g_forks.load(std::memory_order_relaxed);
}

}  // namespace

InsideHandler::InsideHandler(const EntryGuard& guard) : guard_(guard), outer_(t_handler) {
  t_handler = this;
}

InsideHandler::~InsideHandler() { t_handler = outer_; }

bool InsideHandler::is_of(const EntryGuard& guard) {
  const InsideHandler* handler = t_handler;
  while (handler != nullptr && &handler->guard_ != &guard) handler = handler->outer_;
  return handler != nullptr;
}

EntryGuard::EntryGuard() : forks_(watch_forks()) {}

EntryGuard::Entry::Entry(EntryGuard& guard) : guard_(guard) {
  constexpr const char* kForked =
      "this process is a fork of the one the context belongs to: start processes before, or exec "
      "in the child";
  if (guard.several_) [[unlikely]] {
    if (guard.forks_ != g_forks.load(std::memory_order_relaxed)) {
      refused_ = kForked;
      return;
    }
    if (InsideHandler::is_of(guard)) {
      refused_ = kFromHandler;
      return;
    }
    guard.inside_.fetch_add(1, std::memory_order_relaxed);
    guard.waits_->enter();
    return;
  }
  // A look and a store, not an exchange: it costs nothing, and catches the misuse it is there for
  // all but always.
  if (guard.inside_.load(std::memory_order_relaxed) != 0) {
    refused_ =
        InsideHandler::is_of(guard)
            ? kFromHandler
            : "two threads are in the library at once: calls on a context must be serialised";
  } else if (guard.forks_ != g_forks.load(std::memory_order_relaxed)) {
    refused_ = kForked;
  } else if (guard.waits_ != nullptr && InsideHandler::is_of(guard)) [[unlikely]] {
    refused_ = kFromHandler;  // of the progress thread
  } else {
    guard.inside_.store(1, std::memory_order_relaxed);
    if (guard.waits_ != nullptr) [[unlikely]]
      guard.waits_->enter();
  }
}

EntryGuard::Entry::~Entry() {
  if (refused_ != nullptr) return;
  if (guard_.waits_ != nullptr) [[unlikely]]
    guard_.waits_->leave();
  if (guard_.several_) [[unlikely]] {
    guard_.inside_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    guard_.inside_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace ibcoll
