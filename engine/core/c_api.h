#pragma once
/// What the files of the C interface share: its objects, and Results to statuses.

#include <array>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/cancellation.h"
#include "engine/base/thread_end.h"
#include "engine/core/c_api_blocking.h"
#include "engine/core/c_api_counts.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/handles.h"
#include "engine/execute/user_registrations.h"
#include "engine/multicast/multicasts.h"
#include "engine/sharing/test_hooks.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::c_api {

/// What the calls of a handle are made on where that is a set, and each call a group of its own.
struct CallsOnSet {
  std::vector<Rank> members;  ///< ascending
  uint64_t tag = 0;
  int rank = -1;  ///< this rank's position
};

}  // namespace ibcoll::c_api

struct ibcoll_group : ibcoll::c_api::Handle<ibcoll_group> {
  ibcoll_context* context = nullptr;
  std::shared_ptr<ibcoll::Group> group;            ///< null with `set`
  std::unique_ptr<ibcoll::c_api::CallsOnSet> set;  ///< of ibcoll_set_group
  std::unique_ptr<ibcoll::c_api::BlockingCalls> blocking;
  bool busy = false;  ///< a thread is in a blocking call
};

struct ibcoll_request : ibcoll::c_api::Handle<ibcoll_request> {
  ibcoll_context* context = nullptr;
  std::optional<ibcoll::Call> call;
  ibcoll::c_api::CountCopies counts;
  ibcoll::c_api::Description description;
  std::shared_ptr<ibcoll::MulticastSend> multicast;  ///< then there is no call
  bool persistent = false;
  bool started = false;  ///< once or more
  bool busy = false;     ///< a thread waits for it
};

struct ibcoll_graph : ibcoll::c_api::Handle<ibcoll_graph> {
  ibcoll_context* context = nullptr;
  std::shared_ptr<ibcoll::Group> group;
  std::shared_ptr<const ibcoll::Graph> graph;
  std::unique_ptr<ibcoll::c_api::BlockingCalls> blocking;
  bool busy = false;  ///< a thread is in a blocking call
};

namespace ibcoll::c_api {

/// A message of ibcoll_multicast_receive.
struct TakenMessage : ibcoll_message, Handle<TakenMessage> {
  ibcoll_context* context = nullptr;  ///< that has received it
  MulticastRun* run = nullptr;
};

}  // namespace ibcoll::c_api

struct ibcoll_memory : ibcoll::c_api::Handle<ibcoll_memory> {
  ibcoll_context* context = nullptr;
  ibcoll::UserRegistration registration;
};

struct ibcoll_context : ibcoll::c_api::Handle<ibcoll_context> {
  std::unique_ptr<ibcoll::Bootstrap> bootstrap;  ///< null where a launcher of ours owns it
  std::unique_ptr<ibcoll::Context> context;
  ibcoll_group world;
  ibcoll::c_api::HandlePool<ibcoll_group> groups;
  ibcoll::c_api::HandlePool<ibcoll_request> requests;
  ibcoll::c_api::HandlePool<ibcoll_memory> memories;
  ibcoll::c_api::HandlePool<ibcoll_graph> graphs;
  ibcoll::c_api::HandlePool<ibcoll::c_api::TakenMessage> messages;
};

namespace ibcoll::c_api {

/// What ibcoll_last_error and ibcoll_last_error_scope give in a thread.
struct LastError {
  std::string line;  ///< empty: see `spare`
  ibcoll_scope scope = IBCOLL_SCOPE_NONE;
  std::array<char, 256> spare = {};  ///< the line's beginning, where there was no memory for it
};
/// This thread's.
LastError& last_error() noexcept;

/// The second half of joining: a context over the job. `hosted`: the process belongs to a host.
ibcoll_status enter(Result<std::unique_ptr<Bootstrap>> bootstrap, bool hosted,
                    const JobHostProgress& host, ibcoll_context** context);

/// Keeps the error's line for ibcoll_last_error of this thread; gives its status.
ibcoll_status report(const Error& error) noexcept;
ibcoll_status refuse(std::string_view message) noexcept;

/// Why a handle can't be used: it is null, or no longer one. `what`: "context", "group", "request",
/// "registered memory", "graph".
ibcoll_status refuse_handle(const char* what, const void* handle) noexcept;

template <class T>
ibcoll_status give(const Result<T>& result) {
  return result ? IBCOLL_OK : report(result.error());
}

/// What leaves `body` as an exception, as a status: C can't catch one. A thread that ends inside
/// (pthread_exit in a function of the program's) unwinds its stack through here.
template <class Body>
ibcoll_status caught(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return report({ErrorCode::kNoMemory, "out of memory"});
  } catch (const std::exception& e) {
    return report({ErrorCode::kInternal, e.what()});
  } catch (...) {  // a host's function may throw anything
    if (thread_ends()) throw;
    return report({ErrorCode::kInternal, "what was thrown is no std::exception"});
  }
}

/// The same for all that a thread goes through to the end when it is cancelled meanwhile.
template <class Body>
ibcoll_status guarded(Body&& body) {
  const NoCancellation no_cancellation;
  return caught(body);
}

/// Runs `body` inside a context that is live, if it may be entered.
template <class Body>
ibcoll_status inside(const ibcoll_context& context, Body&& body) {
  return guarded([&]() -> ibcoll_status {
    const EntryGuard::Entry entry(context.context->threads().guard());
    if (entry.refused() != nullptr) return refuse(entry.refused());
    return body();
  });
}

/// The same for what other ranks wait for: memory that runs out here ends the job, and so does a
/// thread that does not come back.
template <class Body>
ibcoll_status inside_call(ibcoll_context& context, Body&& body) {
  return inside(context, [&]() -> ibcoll_status {
    try {
      [[maybe_unused]] const MayLackMemory here;
      return body();
    } catch (const std::bad_alloc&) {
      return report(context.context->executor().give_up({ErrorCode::kNoMemory, "out of memory"}));
    } catch (...) {
      if (thread_ends()) context.context->executor().give_up_for_thread();
      throw;
    }
  });
}

/// The same for what ends with the job.
template <class Body>
ibcoll_status inside_job(ibcoll_context& context, Body&& body) {
  return inside_call(context, [&]() -> ibcoll_status {
    const std::optional<Error>& failed = context.context->executor().failed();
    return failed ? report(*failed) : body();
  });
}

/// Ends a group because the program wants it; `what`: what it has cancelled.
void cancel(Group& group, std::string_view what);

/// Refuses what ends or changes the context while a thread is inside.
ibcoll_status check_alone(ibcoll_context& context);

/// For the length of a call that may wait: meanwhile other threads leave the handle alone.
template <class Object>
class Busy {
 public:
  explicit Busy(Object& handle) : handle_(handle) { handle_.busy = true; }
  ~Busy() { handle_.busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Object& handle_;
};

/// ibcoll_test and ibcoll_wait of a multicast.
ibcoll_status test(ibcoll_context& context, MulticastSend& send, int& done);
ibcoll_status wait(ibcoll_context& context, MulticastSend& send);
/// The ranks of a bitmap, ascending. `size`: of the job; `what`: they are to be members of.
Result<std::vector<Rank>> ranks_in(std::span<const uint64_t> bitmap, int size, const char* what);

/// Makes a request of a call on a group.
Status make_request(ibcoll_context& context, Group& group, const ibcoll_call& call,
                    ibcoll_request** request);
/// A blocking call, which is already described: what the functions of the collectives are made of.
ibcoll_status run(ibcoll_group* group, const ibcoll_call& call);
/// What the program means by a described call that it makes at once: itself, or `copy`.
Result<const ibcoll_call*> blocking_call(const ibcoll_call* given, ibcoll_call& copy);
/// Checks, starts and waits. `counts`: where the call is to have its counts and displacements from,
/// since it stays prepared; null: from where they are.
Status carry_out(ibcoll_context& context, Call& call, const ibcoll_call& given,
                 CountCopies* counts = nullptr);

/// Runs body(Group&), which makes a call, on the group of this rank's next call on a set. What is
/// refused on this rank alone does not count.
template <class Body>
Status on_set(ibcoll_context& context, std::vector<Rank> members, uint64_t tag, Body&& body) {
  IBCOLL_ASSIGN(const std::shared_ptr<Group> group,
                context.context->groups().of_call(std::move(members), tag));
  try {
    Status done = body(*group);
    if (!done && !group->state().over && !context.context->executor().failed())
      context.context->groups().take_back(*group);
    return done;
  } catch (const std::bad_alloc&) {
    // While the group, and a call of it that is under way, are still there to be told of.
    return tl::unexpected<Error>(
        context.context->executor().give_up({ErrorCode::kNoMemory, "out of memory"}));
  }
}
/// The same on the handle's group.
template <class Body>
Status on_group(ibcoll_group& handle, Body&& body) {
  if (!handle.set) [[likely]]
    return body(*handle.group);
  return on_set(*handle.context, handle.set->members, handle.set->tag, body);
}

/// Gives the request's memory and its share in the group back.
void drop(ibcoll_request& request);
/// Gives back what the graph's handle has.
void drop(ibcoll_graph& graph);
/// Ends the registration, if there is one.
void drop(ibcoll_memory& memory);

}  // namespace ibcoll::c_api
