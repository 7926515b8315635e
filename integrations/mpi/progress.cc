#include "integrations/mpi/progress.h"

#include <atomic>

#include "integrations/mpi/under_way.h"

namespace ibcoll::mpi {

namespace {

/// Of Open MPI.
using Callback = int();
using Registration = int(Callback*);

std::atomic<bool> g_registered{false};
/// The engine's thread runs for a call of the MPI's that is nested in this thread's, or always.
std::atomic<bool> g_thread_runs{false};

Registration* registration(const char* name) {
  return reinterpret_cast<Registration*>(find_symbol(name));
}

int called_back() {
  if (!operations_under_way()) return 0;
  poll_operations();
  return 0;
}

}  // namespace

bool mpi_calls_back() {
  static const bool does = registration("opal_progress_register") != nullptr &&
                           registration("opal_progress_unregister") != nullptr;
  return does;
}

void begin_moving() {
  if (!mpi_calls_back() || g_registered.load(std::memory_order_relaxed) ||
      g_registered.exchange(true))
    return;
  registration("opal_progress_register")(called_back);
}

void end_moving() {
  if (g_registered.exchange(false)) registration("opal_progress_unregister")(called_back);
}

bool moves_by_hand() { return operations_under_way() && !mpi_calls_back(); }

void WhileTheMpiBlocks::begin() {
  const Job& job = the_job();
  post_all();
  // Where several threads may call, or the user wants it, it runs all the time.
  if (job.has_thread_of_its_own || g_thread_runs.exchange(true)) return;
  thread_ = ibcoll_set_progress_thread(job.context, 1) == IBCOLL_OK;
  if (!thread_) g_thread_runs = false;
}

void WhileTheMpiBlocks::end() {
  (void)ibcoll_set_progress_thread(the_job().context, 0);
  g_thread_runs = false;
}

}  // namespace ibcoll::mpi
