#include "integrations/mpi/handlers.h"

#include <array>
#include <atomic>
#include <cstdarg>
#include <mutex>
#include <utility>

#include "integrations/mpi/progress.h"
#include "integrations/mpi/record.h"
#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

namespace {

/// While the program's code runs amid a function of the MPI's: this thread has put down all that it
/// holds, as if that function had not been called. If the code comes back, it is taken up again.
class NothingHeld {
 public:
  NothingHeld()
      : inside_(Inside::exchange(0)),
        polls_(WithoutPolling::exchange(0)),
        notes_(Noting::exchange(0)) {}
  ~NothingHeld() {
    Inside::exchange(inside_);
    WithoutPolling::exchange(polls_);
    Noting::exchange(notes_);
  }
  NothingHeld(const NothingHeld&) = delete;
  NothingHeld& operator=(const NothingHeld&) = delete;

 private:
  const int inside_, polls_, notes_;
};

/// As the MPI calls it, with what it is about first. What follows is the MPI's own: Open MPI passes
/// two pointers more.
using Handler = void(void* about, int* code, ...);

/// The MPI gives its handlers nothing by which one function could stand before many.
constexpr size_t kMost = 256;
std::array<std::atomic<Handler*>, kMost> g_handlers = {};

template <size_t number>
void wrapped(void* about, int* code, ...) {
  va_list more;
  va_start(more, code);
  void* const first = va_arg(more, void*);
  void* const second = va_arg(more, void*);
  va_end(more);
  const NothingHeld meanwhile;
  g_handlers[number].load()(about, code, first, second);
}

template <size_t... numbers>
constexpr std::array<Handler*, sizeof...(numbers)> all_wrapped(std::index_sequence<numbers...>) {
  return {wrapped<numbers>...};
}
constexpr auto kWrapped = all_wrapped(std::make_index_sequence<kMost>());

/// What the MPI is given for a handler; itself where there are too many.
void* wrap(void* function) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  auto* const handler = reinterpret_cast<Handler*>(function);
  for (size_t i = 0; handler != nullptr && i < kMost; ++i) {
    Handler* const known = g_handlers[i];
    if (known == nullptr) g_handlers[i] = handler;
    if (known == nullptr || known == handler) return reinterpret_cast<void*>(kWrapped[i]);
  }
  return function;
}

}  // namespace

void tell(Handle comm, int code) { library().Comm_call_errhandler(comm, code); }

void Untold::set(Communicator& on, int code) {
  if (is()) return;
  use(on);
  on_ = &on;
  code_ = code;
}

void Untold::tell() {
  const Library& mpi = library();
  Communicator& on = *std::exchange(on_, nullptr);
  Handle comm = on.handle, stands_in = 0;
  {
    const Inside inside;
    const Handle handler = on.handler;
    // Of one that was freed: the handler has to be called for some communicator.
    if (comm == 0 && handler != 0 && mpi.Comm_dup(the_job().alone, &stands_in) == 0)
      mpi.Comm_set_errhandler(stands_in, handler);
    release(on);
  }
  if (comm == 0) comm = stands_in != 0 ? stands_in : the_job().whole;
  mpi::tell(comm, code_);
  const Inside inside;
  if (stands_in != 0) mpi.Comm_free(&stands_in);
}

bool is_fatal_on(const Communicator& on) {
  const Library& mpi = library();
  const Handle comm = on.handle;
  Handle handler = on.handler;
  if (comm == 0) return mpi.clean(handler) == mpi.constants.errors_are_fatal;
  if (mpi.Comm_get_errhandler(comm, &handler) != 0) return false;
  const bool fatal = mpi.clean(handler) == mpi.constants.errors_are_fatal;
  mpi.Errhandler_free(&handler);
  return fatal;
}

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

IBCOLL_MPI_STANDS_IN(Comm_set_errhandler, (Handle comm, Handle handler), {
  static auto* const original = original_of<int(Handle, Handle)>("PMPI_Comm_set_errhandler");
  const Library& mpi = library();
  if (mpi.clean(handler) != mpi.constants.errors_are_fatal) the_job().survives_errors = true;
  return original(comm, handler);
})

#define MAKES_HANDLER(name)                                                         \
  IBCOLL_MPI_STANDS_IN(name, (void* function, void* handler), {                     \
    static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name); \
    return original(wrap(function), handler);                                       \
  })
MAKES_HANDLER(Comm_create_errhandler)
MAKES_HANDLER(Win_create_errhandler)
MAKES_HANDLER(File_create_errhandler)
MAKES_HANDLER(Session_create_errhandler)
MAKES_HANDLER(Errhandler_create)
