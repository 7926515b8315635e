// Messages that a program waits for: where the MPI's waits do not move operations of the engine on,
// they are sent and received by requests, while there are any. And what a program asks for again
// and again.

#include "integrations/mpi/by_hand.h"
#include "integrations/mpi/flows.h"

namespace ibcoll::mpi {

namespace {

/// Whether the function need only be passed on.
bool passes() { return !moves_by_hand() || Inside::is(); }

/// `start(request)` and its end.
template <class Start>
int by_request(void* status, const Start& start) {
  const Inside inside;
  Handle request = 0;
  const int code = start(&request);
  return code != 0 ? code : wait_moving(&request, status);
}

/// A receive that its peer need not answer any more.
void take_back(void* request) {
  static auto* const cancel = original_of<int(void*)>("PMPI_Cancel");
  (void)cancel(request);
  (void)wait_moving(request, library().constants.status_ignore);
}

/// Looks until there is something, or nothing is left to be moved on: then `wait()` does.
template <class Look, class Wait>
int by_looking(const Look& look, const Wait& wait) {
  const Inside inside;
  return wait_by_hand(moves_by_hand, look, wait);
}

}  // namespace

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

#define SENDS(name, nonblocking, Number)                                                   \
  IBCOLL_MPI_STANDS_IN(                                                                    \
      name, (const void* data, Number count, Handle type, int to, int tag, Handle comm), { \
        IBCOLL_MPI_NOTES(MPI_##name, (data, count, type, to, tag, comm),                   \
                         note(flows_to(comm, to, count, type)))                            \
        static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name);    \
        if (passes()) [[likely]]                                                           \
          return original(data, count, type, to, tag, comm);                               \
        static auto* const start =                                                         \
            original_of<int(const void*, Number, Handle, int, int, Handle, void*)>(        \
                "PMPI_" #nonblocking);                                                     \
        return by_request(library().constants.status_ignore, [&](void* request) {          \
          return start(data, count, type, to, tag, comm, request);                         \
        });                                                                                \
      })
SENDS(Send, Isend, int)
SENDS(Send_c, Isend_c, Count)
SENDS(Ssend, Issend, int)
SENDS(Ssend_c, Issend_c, Count)
SENDS(Rsend, Irsend, int)
SENDS(Rsend_c, Irsend_c, Count)

#define RECEIVES(name, nonblocking, Number)                                                        \
  IBCOLL_MPI_STANDS_IN(                                                                            \
      name, (void* data, Number count, Handle type, int from, int tag, Handle comm, void* status), \
      {                                                                                            \
        static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name);            \
        if (passes()) [[likely]]                                                                   \
          return original(data, count, type, from, tag, comm, status);                             \
        static auto* const start =                                                                 \
            original_of<int(void*, Number, Handle, int, int, Handle, void*)>(                      \
                "PMPI_" #nonblocking);                                                             \
        return by_request(status, [&](void* request) {                                             \
          return start(data, count, type, from, tag, comm, request);                               \
        });                                                                                        \
      })
RECEIVES(Recv, Irecv, int)
RECEIVES(Recv_c, Irecv_c, Count)

#define RECEIVES_MATCHED(name, nonblocking, Number)                                             \
  IBCOLL_MPI_STANDS_IN(                                                                         \
      name, (void* data, Number count, Handle type, void* message, void* status), {             \
        static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name);         \
        if (passes()) [[likely]]                                                                \
          return original(data, count, type, message, status);                                  \
        static auto* const start =                                                              \
            original_of<int(void*, Number, Handle, void*, void*)>("PMPI_" #nonblocking);        \
        return by_request(                                                                      \
            status, [&](void* request) { return start(data, count, type, message, request); }); \
      })
RECEIVES_MATCHED(Mrecv, Imrecv, int)
RECEIVES_MATCHED(Mrecv_c, Imrecv_c, Count)

#define EXCHANGES(name, suffix, Number)                                                            \
  IBCOLL_MPI_STANDS_IN(                                                                            \
      name,                                                                                        \
      (const void* data, Number count, Handle type, int to, int tag, void* place,                  \
       Number place_count, Handle place_type, int from, int place_tag, Handle comm, void* status), \
      {                                                                                            \
        IBCOLL_MPI_NOTES(MPI_##name,                                                               \
                         (data, count, type, to, tag, place, place_count, place_type, from,        \
                          place_tag, comm, status),                                                \
                         note(flows_to(comm, to, count, type)))                                    \
        static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name);            \
        if (passes()) [[likely]]                                                                   \
          return original(data, count, type, to, tag, place, place_count, place_type, from,        \
                          place_tag, comm, status);                                                \
        static auto* const send =                                                                  \
            original_of<int(const void*, Number, Handle, int, int, Handle, void*)>(                \
                "PMPI_Isend" #suffix);                                                             \
        static auto* const recv =                                                                  \
            original_of<int(void*, Number, Handle, int, int, Handle, void*)>(                      \
                "PMPI_Irecv" #suffix);                                                             \
        const Inside inside;                                                                       \
        Handle received = 0, sent = 0;                                                             \
        int code = recv(place, place_count, place_type, from, place_tag, comm, &received);         \
        if (code != 0) return code;                                                                \
        code = send(data, count, type, to, tag, comm, &sent);                                      \
        if (code == 0) code = wait_moving(&sent, library().constants.status_ignore);               \
        if (code == 0) return wait_moving(&received, status);                                      \
        take_back(&received);                                                                      \
        return code;                                                                               \
      })
EXCHANGES(Sendrecv, , int)
EXCHANGES(Sendrecv_c, _c, Count)

IBCOLL_MPI_STANDS_IN(Probe, (int from, int tag, Handle comm, void* status), {
  static auto* const original = original_of<int(int, int, Handle, void*)>("PMPI_Probe");
  if (passes()) [[likely]]
    return original(from, tag, comm, status);
  static auto* const look = original_of<int(int, int, Handle, int*, void*)>("PMPI_Iprobe");
  return by_looking([&](int* flag) { return look(from, tag, comm, flag, status); },
                    [&] { return original(from, tag, comm, status); });
})

IBCOLL_MPI_STANDS_IN(Mprobe, (int from, int tag, Handle comm, void* message, void* status), {
  static auto* const original = original_of<int(int, int, Handle, void*, void*)>("PMPI_Mprobe");
  if (passes()) [[likely]]
    return original(from, tag, comm, message, status);
  static auto* const look = original_of<int(int, int, Handle, int*, void*, void*)>("PMPI_Improbe");
  return by_looking([&](int* flag) { return look(from, tag, comm, flag, message, status); },
                    [&] { return original(from, tag, comm, message, status); });
})

/// What is asked for again and again moves them on, too.
#define ASKS(name, parameters, given)                                               \
  IBCOLL_MPI_STANDS_IN(name, parameters, {                                          \
    static auto* const original = original_of<decltype(MPI_##name)>("PMPI_" #name); \
    if (passes()) [[likely]]                                                        \
      return original given;                                                        \
    const Inside inside;                                                            \
    poll_operations();                                                              \
    const int code = original given;                                                \
    let_others_in(code != 0 || *flag != 0);                                         \
    return code;                                                                    \
  })
ASKS(Iprobe, (int from, int tag, Handle comm, int* flag, void* status),
     (from, tag, comm, flag, status))
ASKS(Improbe, (int from, int tag, Handle comm, int* flag, void* message, void* status),
     (from, tag, comm, flag, message, status))
ASKS(Parrived, (Handle request, int partition, int* flag), (request, partition, flag))
ASKS(Win_test, (Handle window, int* flag), (window, flag))
