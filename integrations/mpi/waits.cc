// The functions that complete requests: operations of the engine are moved on in them, and waited
// for in the engine where this rank needs them. Then the MPI completes what there is.

#include <sched.h>

#include <algorithm>
#include <vector>

#include "integrations/mpi/by_hand.h"
#include "integrations/mpi/record.h"

namespace ibcoll::mpi {

namespace {

/// Errors of operations among the requests of a call, which the MPI does not know of: to be made
/// before it completes them, and nothing may end meanwhile.
class Errors {
 public:
  Errors(const void* requests, int count, Untold& untold) : untold_(untold) {
    if (!operations_failed() || requests == nullptr) [[likely]]
      return;
    failed_.resize(static_cast<size_t>(std::max(count, 0)));
    for (size_t i = 0; i < failed_.size(); ++i) {
      Operation* const found = find_operation(library().handle_at(requests, static_cast<int>(i)));
      if (found == nullptr || found->state == Operation::kUnderWay) continue;
      failed_[i] = {found->code, found->code != 0 ? found->on : nullptr,
                    found->is_persistent() ? found : nullptr};
      if (failed_[i].on != nullptr) use(*failed_[i].on);
    }
  }
  ~Errors() {
    for (const Failed& failed : failed_)
      if (failed.on != nullptr) release(*failed.on);
  }
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;
  /// What the caller of a function that has completed one request gets. `mpi`: what the MPI said.
  int of(int mpi, int which, bool completed) const {
    if (failed_.empty() || mpi != 0 || !completed || which < 0) return mpi;
    return give(static_cast<size_t>(which));
  }
  /// That has completed these, or all (`indices` null).
  int of(int mpi, int completed, const int* indices, void* statuses) const {
    const ibcoll_mpi_constants& constants = library().constants;
    if (failed_.empty() || (mpi != 0 && mpi != constants.err_in_status) || completed <= 0)
      return mpi;
    int code = mpi;
    for (int i = 0; i < completed; ++i) {
      const int own = give(static_cast<size_t>(indices != nullptr ? indices[i] : i));
      if (own != 0) code = constants.err_in_status;
      if (statuses == constants.statuses_ignore || (own == 0 && mpi != 0)) continue;
      auto* const at = static_cast<std::byte*>(statuses) +
                       static_cast<size_t>(i) * constants.status_bytes + constants.status_error_at;
      *reinterpret_cast<int*>(at) = own;
    }
    return code;
  }
  /// The same for one that stays as it is.
  int seen(int mpi, bool completed) const {
    return failed_.empty() || mpi != 0 || !completed ? mpi : failed_[0].code;
  }

 private:
  struct Failed {
    int code = 0;
    Communicator* on = nullptr;       ///< in use; whose handler has to hear of it
    Operation* persistent = nullptr;  ///< the request stays: its code is given once
  };
  int give(size_t which) const {
    const Failed& failed = failed_[which];
    if (failed.on != nullptr) untold_.set(*failed.on, failed.code);
    if (failed.code != 0 && failed.persistent != nullptr) forget_error(*failed.persistent);
    return failed.code;
  }

  Untold& untold_;
  std::vector<Failed> failed_;
};

/// Completes requests, and tells of an error of an operation among them when nothing is held.
template <class Complete>
int tell_behind(const Complete& complete) {
  Untold untold;
  int code = 0;
  {
    const Inside inside;
    code = complete(untold);
  }
  if (untold.is()) [[unlikely]]
    untold.tell();
  return code;
}

/// Whether the function need only be passed on.
bool passes() { return (!operations_under_way() && !operations_failed()) || Inside::is(); }

/// What the MPI's own libraries call inside, as files of ROMIO's do in each test of their requests,
/// stays with the MPI: whether operations are under way meanwhile may differ from rank to rank.
template <class Original, class... Arguments>
int pass_on(Original* original, Arguments... arguments) {
  const Inside inside;
  return original(arguments...);
}

void settle_all(const void* requests, int count) {
  for (int i = 0; requests != nullptr && i < count && operations_under_way(); ++i) {
    Operation* const found = find_operation(library().handle_at(requests, i));
    if (found != nullptr) settle(*found);
  }
}

using TestOne = int(void*, int*, void*);
using TestAll = int(int, void*, int*, void*);
using TestAny = int(int, void*, int*, int*, void*);
using TestSome = int(int, void*, int*, int*, void*);

/// MPI_Waitsome or MPI_Testsome.
int complete_some(TestSome* function, int count, void* requests, int* out, int* indices,
                  void* statuses, Untold& untold) {
  const Errors errors(requests, count, untold);
  const int code = function(count, requests, out, indices, statuses);
  return errors.of(code, *out, indices, statuses);
}

}  // namespace

void let_others_in(bool found) {
  constexpr int kPatience = 16;
  [[gnu::tls_model("initial-exec")]] static thread_local int in_vain = 0;
  if (found)
    in_vain = 0;
  else if (++in_vain > kPatience)
    sched_yield();
}

int wait_moving(void* request, void* status) {
  static auto* const wait = original_of<int(void*, void*)>("PMPI_Wait");
  static auto* const test = original_of<TestOne>("PMPI_Test");
  return wait_by_hand(
      moves_by_hand, [&](int* flag) { return test(request, flag, status); },
      [&] { return wait(request, status); });
}

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

IBCOLL_MPI_STANDS_IN(Wait, (void* request, void* status), {
  static auto* const original = original_of<int(void*, void*)>("PMPI_Wait");
  if (passes()) [[likely]]
    return pass_on(original, request, status);
  return tell_behind([&](Untold& untold) {
    settle_all(request, 1);
    const Errors errors(request, 1, untold);
    return errors.of(wait_moving(request, status), 0, true);
  });
})

IBCOLL_MPI_STANDS_IN(Test, (void* request, int* flag, void* status), {
  static auto* const original = original_of<TestOne>("PMPI_Test");
  if (passes()) [[likely]]
    return pass_on(original, request, flag, status);
  return tell_behind([&](Untold& untold) {
    poll_operations();
    const WithoutPolling known;
    const Errors errors(request, 1, untold);
    const int code = original(request, flag, status);
    let_others_in(*flag != 0);
    return errors.of(code, 0, *flag != 0);
  });
})

IBCOLL_MPI_STANDS_IN(Waitall, (int count, void* requests, void* statuses), {
  static auto* const original = original_of<int(int, void*, void*)>("PMPI_Waitall");
  static auto* const test = original_of<TestAll>("PMPI_Testall");
  if (passes()) [[likely]]
    return pass_on(original, count, requests, statuses);
  return tell_behind([&](Untold& untold) {
    settle_all(requests, count);
    const Errors errors(requests, count, untold);
    const int code = wait_by_hand(
        moves_by_hand, [&](int* flag) { return test(count, requests, flag, statuses); },
        [&] { return original(count, requests, statuses); });
    return errors.of(code, count, nullptr, statuses);
  });
})

IBCOLL_MPI_STANDS_IN(Testall, (int count, void* requests, int* flag, void* statuses), {
  static auto* const original = original_of<TestAll>("PMPI_Testall");
  if (passes()) [[likely]]
    return pass_on(original, count, requests, flag, statuses);
  return tell_behind([&](Untold& untold) {
    poll_operations();
    const WithoutPolling known;
    const Errors errors(requests, count, untold);
    const int code = original(count, requests, flag, statuses);
    let_others_in(*flag != 0);
    return errors.of(code, *flag != 0 ? count : 0, nullptr, statuses);
  });
})

IBCOLL_MPI_STANDS_IN(Waitany, (int count, void* requests, int* index, void* status), {
  static auto* const original = original_of<int(int, void*, int*, void*)>("PMPI_Waitany");
  static auto* const test = original_of<TestAny>("PMPI_Testany");
  if (passes()) [[likely]]
    return pass_on(original, count, requests, index, status);
  return tell_behind([&](Untold& untold) {
    return wait_by_hand(
        operations_under_way,
        [&](int* flag) {
          const WithoutPolling known;
          const Errors errors(requests, count, untold);
          const int code = test(count, requests, index, flag, status);
          return errors.of(code, *index, *flag != 0);
        },
        [&] {
          const Errors errors(requests, count, untold);
          return errors.of(original(count, requests, index, status), *index, true);
        });
  });
})

IBCOLL_MPI_STANDS_IN(Testany, (int count, void* requests, int* index, int* flag, void* status), {
  static auto* const original = original_of<TestAny>("PMPI_Testany");
  if (passes()) [[likely]]
    return pass_on(original, count, requests, index, flag, status);
  return tell_behind([&](Untold& untold) {
    poll_operations();
    const WithoutPolling known;
    const Errors errors(requests, count, untold);
    const int code = original(count, requests, index, flag, status);
    let_others_in(*flag != 0);
    return errors.of(code, *index, *flag != 0);
  });
})

IBCOLL_MPI_STANDS_IN(
    Waitsome, (int count, void* requests, int* out, int* indices, void* statuses), {
      static auto* const original = original_of<TestSome>("PMPI_Waitsome");
      static auto* const test = original_of<TestSome>("PMPI_Testsome");
      if (passes()) [[likely]]
        return pass_on(original, count, requests, out, indices, statuses);
      return tell_behind([&](Untold& untold) {
        return wait_by_hand(
            operations_under_way,
            [&](int* flag) {
              const WithoutPolling known;
              const int code = complete_some(test, count, requests, out, indices, statuses, untold);
              *flag = *out != 0 ? 1 : 0;  // what is undefined is not 0 either
              return code;
            },
            [&] {
              return complete_some(original, count, requests, out, indices, statuses, untold);
            });
      });
    })

IBCOLL_MPI_STANDS_IN(Testsome, (int count, void* requests, int* out, int* indices, void* statuses),
                     {
                       static auto* const original = original_of<TestSome>("PMPI_Testsome");
                       if (passes()) [[likely]]
                         return pass_on(original, count, requests, out, indices, statuses);
                       return tell_behind([&](Untold& untold) {
                         poll_operations();
                         const WithoutPolling known;
                         const int code = complete_some(original, count, requests, out, indices,
                                                        statuses, untold);
                         let_others_in(*out != 0);
                         return code;
                       });
                     })

IBCOLL_MPI_STANDS_IN(Request_get_status, (Handle request, int* flag, void* status), {
  static auto* const original = original_of<int(Handle, int*, void*)>("PMPI_Request_get_status");
  if (passes()) [[likely]]
    return pass_on(original, request, flag, status);
  // Who completes the request hears of its error by a handler, too.
  return tell_behind([&](Untold& untold) {
    poll_operations();
    const WithoutPolling known;
    const Errors errors(&request, 1, untold);
    const int code = original(request, flag, status);
    let_others_in(*flag != 0);
    return errors.seen(code, *flag != 0);
  });
})

IBCOLL_MPI_STANDS_IN(Start, (void* request), {
  if (notes()) [[unlikely]] {
    const Noting noting;
    const NoteOfStart started(request, 1);
    return started.seen(MPI_Start(request));
  }
  static auto* const original = original_of<int(void*)>("PMPI_Start");
  Operation* const found = Inside::is() || running_job() == nullptr
                               ? nullptr
                               : find_operation(library().handle_at(request, 0));
  if (found == nullptr) return original(request);
  return tell_behind([&](Untold& untold) { return start_operation(*found, request, untold); });
})

IBCOLL_MPI_STANDS_IN(Startall, (int count, void* requests), {
  if (notes()) [[unlikely]] {
    const Noting noting;
    const NoteOfStart started(requests, count);
    return started.seen(MPI_Startall(count, requests));
  }
  static auto* const original = original_of<int(int, void*)>("PMPI_Startall");
  static auto* const start = original_of<int(void*)>("PMPI_Start");
  const Library& mpi = library();
  bool some = false;
  const bool looks = requests != nullptr && !Inside::is() && running_job() != nullptr;
  for (int i = 0; looks && i < count && !some; ++i)
    some = find_operation(mpi.handle_at(requests, i)) != nullptr;
  if (!some) return original(count, requests);
  return tell_behind([&](Untold& untold) {
    for (int i = 0; i < count; ++i) {
      void* const place = mpi.place_of_handle(requests, i);
      Operation* const found = find_operation(mpi.handle_at(requests, i));
      const int code = found != nullptr ? start_operation(*found, place, untold) : start(place);
      if (code != 0) return code;
    }
    return 0;
  });
})

IBCOLL_MPI_STANDS_IN(Request_free, (void* request), {
  // Before the MPI may give the handle to another request.
  if (notes()) [[unlikely]]
    note_request_freed(request);
  static auto* const original = original_of<int(void*)>("PMPI_Request_free");
  if (Inside::is() || running_job() == nullptr) return original(request);
  const Inside inside;
  Operation* const found = find_operation(library().handle_at(request, 0));
  if (found != nullptr && found->is_persistent()) return free_persistent(*found, request);
  return original(request);
})

IBCOLL_MPI_STANDS_IN(Cancel, (void* request), {
  static auto* const original = original_of<int(void*)>("PMPI_Cancel");
  if (Inside::is() || running_job() == nullptr) return original(request);
  const Inside inside;
  // The receive of a persistent call must not be cancelled: nobody would take its message.
  Operation* const found = find_operation(library().handle_at(request, 0));
  return found != nullptr && found->is_persistent() ? 0 : original(request);
})
