#include "engine/core/entry_guard.h"

#include <pthread.h>

namespace ibcoll {
namespace {

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

EntryGuard::EntryGuard() : forks_(watch_forks()) {}

EntryGuard::Entry::Entry(EntryGuard& guard) : guard_(guard) {
  // A look and a store, not an exchange: it costs nothing, and catches the misuse it is there for
  // all but always.
  if (guard.inside_.load(std::memory_order_relaxed)) {
    refused_ = "two threads are in the library at once: calls on a context must be serialised";
  } else if (guard.forks_ != g_forks.load(std::memory_order_relaxed)) {
    refused_ =
        "this process is a fork of the one the context belongs to: start processes before, or exec "
        "in the child";
  } else {
    guard.inside_.store(true, std::memory_order_relaxed);
  }
}

EntryGuard::Entry::~Entry() {
  if (refused_ == nullptr) guard_.inside_.store(false, std::memory_order_relaxed);
}

}  // namespace ibcoll
