// What a rank has stored and others do not see yet, as a processor's store buffer has it.

#include <algorithm>
#include <cstring>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/state.h"

namespace ibcoll::lockstep {

bool g_delays_stores = false, g_has_delayed = false;

namespace {

constexpr size_t kMostDelayed = 12;

}  // namespace

void Bed::State::show_some(Fiber& fiber) {
  if (fiber.delayed.empty()) return;
  size_t at = 0;
  if (conditions.weak_order) {
    // One that is not released may pass others, but none to the same word.
    at = random.below(fiber.delayed.size());
    const Delayed& chosen = fiber.delayed[at];
    const auto earlier = fiber.delayed.begin() + static_cast<ptrdiff_t>(at);
    if (chosen.released ||
        std::any_of(fiber.delayed.begin(), earlier,
                    [&chosen](const Delayed& one) { return one.word == chosen.word; }))
      at = 0;
  }
  counts.stores_reordered += at != 0;
  fiber.delayed[at].show();
  fiber.delayed.erase(fiber.delayed.begin() + static_cast<ptrdiff_t>(at));
  ++g_changes;
}

void delay_store(void* word, const void* value, size_t bytes, std::memory_order order) {
  std::vector<Delayed>& delayed = self().delayed;
  if (delayed.size() >= kMostDelayed) state().show_some(self());
  Delayed store{word, 0, static_cast<uint8_t>(bytes), order != std::memory_order_relaxed};
  std::memcpy(&store.value, value, bytes);
  delayed.push_back(store);
  ++state().counts.stores_kept_back;
  g_has_delayed = true;
}

bool find_delayed(const void* word, void* value, size_t bytes) {
  const std::vector<Delayed>& delayed = self().delayed;
  const auto found = std::find_if(delayed.rbegin(), delayed.rend(),
                                  [word](const Delayed& one) { return one.word == word; });
  if (found == delayed.rend()) return false;
  std::memcpy(value, &found->value, bytes);
  return true;
}

void show_stores() {
  g_has_delayed = false;
  if (!machine::in_fiber() || self().delayed.empty()) return;
  for (const Delayed& store : self().delayed) store.show();
  self().delayed.clear();
  ++g_changes;
}

void machine::fence_everybody() {
  for (const auto& fiber : state().fibers) {
    g_changes += fiber->delayed.size();
    for (const Delayed& store : fiber->delayed) store.show();
    fiber->delayed.clear();
  }
  g_has_delayed = false;
}

}  // namespace ibcoll::lockstep
