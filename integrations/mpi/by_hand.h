#pragma once
/// Waits and tests where this library has to move operations on itself.

#include <sched.h>

#include "integrations/mpi/operations.h"

namespace ibcoll::mpi {

/// `test(flag)` again and again, while `goes_on()`; then `wait()`.
template <class GoesOn, class Test, class Wait>
int wait_by_hand(const GoesOn& goes_on, const Test& test, const Wait& wait) {
  while (goes_on()) {
    poll_operations();
    int flag = 0;
    const int code = test(&flag);
    if (code != 0 || flag != 0) return code;
    sched_yield();
  }
  return wait();
}

/// Behind a test, which has `found` something or not: who tests again and again holds up the ranks
/// that it waits for, where they have no core of their own.
void let_others_in(bool found);

}  // namespace ibcoll::mpi
