// The C interface: how a job begins and ends.

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/quote.h"
#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/c_api.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/server_placement.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

/// The contexts of this process. They stay when it ends, since a thread may be inside one.
class Contexts {
 public:
  static ibcoll_context& take() {
    Contexts& self = instance();
    const std::lock_guard lock(self.mutex_);
    return self.pool_.take();
  }
  static void give_back(ibcoll_context& context) {
    Contexts& self = instance();
    const std::lock_guard lock(self.mutex_);
    self.pool_.give_back(context);
  }

 private:
  static Contexts& instance() {
    static Contexts* const contexts = new Contexts;
    return *contexts;
  }
  std::mutex mutex_;
  HandlePool<ibcoll_context> pool_;
};

/// What is thrown on this rank alone is an error of all: they would wait for it.
Result<std::unique_ptr<Context>> create_context(Bootstrap& bootstrap,
                                                const ContextOptions& options) {
  try {
    return Context::create(bootstrap, options);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kNoMemory, "out of memory");
  } catch (const std::exception& thrown) {
    return fail(ErrorCode::kInternal, "{}", thrown.what());
  }
}

ibcoll_status make_context(Bootstrap& bootstrap, const ContextOptions& options,
                           const JobHostProgress& host, ibcoll_context& result) {
  Result<std::unique_ptr<Context>> context = create_context(bootstrap, options);
  if (!context) {
    bootstrap.abort({bootstrap.rank(), context.error().code, context.error().message});
    return report(context.error());
  }
  {
    // A progress thread that helps peers looks at it.
    const EntryGuard::Entry entry((*context)->threads().guard());
    (*context)->executor().serve_host(host);
  }
  if (const Status threads =
          (*context)->threads().use(options.several_threads, options.progress_thread);
      !threads) {
    bootstrap.abort({bootstrap.rank(), threads.error().code, threads.error().message});
    return report(threads.error());
  }
  result.context = std::move(*context);
  result.world.context = &result;
  result.world.group = result.context->world().shared_from_this();
  result.world.state = ibcoll_group::kLive;
  return IBCOLL_OK;
}

bool is_under_way(const ibcoll_request& request) {
  return request.multicast ? !request.multicast->completion.done : request.call->under_way();
}

/// What the user has left: "2 groups, 1 registered buffer and 3 requests: 1 alltoall (1 under way),
/// 2 bcast"; empty: nothing.
std::string leftovers(ibcoll_context& context) {
  int groups = 0, graphs = 0, buffers = 0, messages = 0, requests = 0;
  struct Count {
    int all = 0, under_way = 0;
  };
  std::array<Count, kCollectives.size() + 1> counts;  // multicasts last
  context.groups.for_each_live([&](ibcoll_group&) { ++groups; });
  context.graphs.for_each_live([&](ibcoll_graph&) { ++graphs; });
  context.memories.for_each_live([&](ibcoll_memory&) { ++buffers; });
  context.messages.for_each_live([&](TakenMessage&) { ++messages; });
  context.requests.for_each_live([&](ibcoll_request& request) {
    ++requests;
    Count& count =
        request.multicast ? counts.back() : counts[static_cast<size_t>(request.call->collective())];
    ++count.all;
    if (is_under_way(request)) ++count.under_way;
  });
  std::string kinds;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].all == 0) continue;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", counts[i].all,
                         i < kCollectives.size() ? to_string(kCollectives[i]) : "multicast");
    if (counts[i].under_way != 0) kinds += fmt::format(" ({} under way)", counts[i].under_way);
  }
  std::vector<std::string> parts;
  const auto add = [&parts](int count, const char* what) {
    if (count != 0) parts.push_back(fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"));
  };
  add(groups, "group");
  add(graphs, "graph");
  add(buffers, "registered buffer");
  add(messages, "message");
  add(static_cast<int>(context.context->own_operators().count()), "operator");
  add(requests, "request");
  if (requests != 0) parts.back() += ": " + kinds;
  if (parts.size() < 2) return parts.empty() ? "" : parts[0];
  const std::string last = std::move(parts.back());
  parts.pop_back();
  return fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

/// Ends the calls that are under way, lets go of everything and leaves the job.
Status leave(ibcoll_context& context) {
  // Messages that nobody takes or frees any more must not keep the memory for which those wait
  // that others are to wait for.
  Multicasts& multicasts = context.context->multicasts();
  multicasts.set_handler([](const MulticastMessage&) {});
  context.messages.for_each_live([&](TakenMessage& message) {
    multicasts.free(*std::exchange(message.run, nullptr));
    context.messages.give_back(message);
  });
  context.requests.for_each_live([&context](ibcoll_request& request) {
    // Peers may need this rank's part. An error is the job's, which closing it gives again.
    if (!is_under_way(request)) return;
    if (request.multicast)
      (void)wait(context, *request.multicast);
    else
      (void)request.call->wait();
  });
  context.requests.for_each_live([](ibcoll_request& request) { drop(request); });
  context.graphs.for_each_live([](ibcoll_graph& graph) { drop(graph); });
  context.memories.for_each_live([](ibcoll_memory& memory) { drop(memory); });
  context.groups.for_each_live([&context](ibcoll_group& group) {
    group.blocking.reset();
    group.set.reset();
    group.group.reset();
    context.groups.give_back(group);
  });
  context.world.blocking.reset();
  context.world.group.reset();
  context.world.state = 0;
  Status closed = context.context->close();
  context.context.reset();
  context.bootstrap.reset();
  return closed;
}

/// The rank's function has returned. Threads that take turns and are still inside would be there
/// for ever, or use what is gone: the job ends for them, and they leave.
void await_threads(ibcoll_context& context) {
  Context& engine = *context.context;
  for (bool told = false; engine.threads().guard().lets_several_in(); told = true) {
    {
      const EntryGuard::Entry entry(engine.threads().guard());
      if (!entry.has_company()) break;
      if (!told) {
        engine.executor().abort(
            {engine.rank(), ErrorCode::kInvalidArgument,
             fmt::format("rank {}'s function has returned while another thread was in a call",
                         engine.rank())});
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine.threads().stop();
}

/// One rank of ibcoll_launch. `survives`: the others' deaths.
int run_rank(Bootstrap& bootstrap, const ContextOptions& options, bool survives,
             int (*main)(ibcoll_context*, void*), void* argument) {
  ibcoll_context& context = Contexts::take();
  int result = 1;
  if (make_context(bootstrap, options, {}, context) == IBCOLL_OK) {
    result = main(&context, argument);
    await_threads(context);
    if (const std::string handles = leftovers(context); !handles.empty())
      log().warn("the rank's function has returned and left {}", handles);
    // Others may have waited for this rank in vain: it has not ended well then.
    const bool goes_on =
        context.context->job().survives_deaths() && !context.context->executor().has_ended();
    const ibcoll_status left = give(leave(context));
    const auto failure = bootstrap.failure();
    const bool outlived = survives && goes_on && failure && failure->code == ErrorCode::kRankDied;
    if (left != IBCOLL_OK && result == 0 && !outlived) {
      fmt::print(stderr, "{}\n", ibcoll_last_error());
      result = 1;
    }
  } else {
    fmt::print(stderr, "{}\n", ibcoll_last_error());
  }
  Contexts::give_back(context);
  return result;
}

}  // namespace

ibcoll_status ibcoll::c_api::enter(Result<std::unique_ptr<Bootstrap>> bootstrap, bool hosted,
                                   const JobHostProgress& host, ibcoll_context** context) {
  if (!bootstrap) return report(bootstrap.error());
  Result<ContextOptions> options = ContextOptions::from_environment((*bootstrap)->size());
  if (!options) {
    (*bootstrap)->abort({(*bootstrap)->rank(), options.error().code, options.error().message});
    return report(options.error());
  }
  // A host that waits for its own messages moves nothing here once all calls have ended, and its
  // peers would wait for what a late check still owes them.
  if (hosted && options->check == CheckMode::kLate) options->check = CheckMode::kData;
  ibcoll_context& made = Contexts::take();
  made.bootstrap = std::move(*bootstrap);
  const ibcoll_status status = make_context(*made.bootstrap, *options, host, made);
  if (status == IBCOLL_OK) {
    *context = &made;
  } else {
    made.bootstrap.reset();
    Contexts::give_back(made);
  }
  return status;
}

namespace {

/// The program that calls ibcoll_init_with, as its process's host.
class CallerAsHost final : public JobHost {
 public:
  explicit CallerAsHost(const ibcoll_bootstrap& given) : given_(given) {}
  Rank rank() const override { return given_.rank; }
  int size() const override { return given_.size; }
  Status allgather(const void* mine, size_t bytes, void* all) override {
    if (given_.allgather != nullptr)
      return to_status("allgather", given_.allgather(given_.host, mine, bytes, all));
    void* request = nullptr;
    IBCOLL_TRY(to_status("allgather_post",
                         given_.allgather_post(given_.host, mine, bytes, all, &request)));
    for (int tests = 0;; ++tests) {
      int done = 0;
      IBCOLL_TRY(to_status("allgather_test", given_.allgather_test(given_.host, request, &done)));
      if (done != 0) return {};
      // The host may move on in its tests only: they are soon again, but leave the core to others.
      constexpr int kYields = 1000;
      if (tests < kYields)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static Status to_status(const char* function, int error) {
    if (error == 0) return {};
    return fail(ErrorCode::kSystem, "the host's {} has failed with error {}", function, error);
  }
  const ibcoll_bootstrap given_;
};

/// What the program gives, if its allgather can be called: all else is told to the others first.
Result<ibcoll_bootstrap> checked(const ibcoll_bootstrap& given) {
  ibcoll_bootstrap copy;
  IBCOLL_ASSIGN(const ibcoll_bootstrap* const whole,
                of_this_version("ibcoll_bootstrap", &given, copy,
                                offsetof(ibcoll_bootstrap, allgather_post)));
  const ibcoll_bootstrap& host = *whole;
  if (host.allgather == nullptr &&
      (host.allgather_post == nullptr || host.allgather_test == nullptr)) {
    return fail(ErrorCode::kInvalidArgument,
                "the host gives no allgather: allgather is null, and so is {}",
                host.allgather_post == nullptr ? "allgather_post" : "allgather_test");
  }
  return host;
}

Result<ContextOptions> options_of(const ibcoll_launch_options& options) {
  IBCOLL_ASSIGN(const std::optional<Shape> shape,
                emulated_servers(options.ranks, options.layout, options.placement));
  return ContextOptions::from_environment(shape);
}

}  // namespace

ibcoll_status ibcoll_launch(const ibcoll_launch_options* options,
                            int (*main)(ibcoll_context*, void*), void* argument, int* exit_status) {
  if (options == nullptr || main == nullptr)
    return refuse("the launch options or the function to run are null");
  // The program's main function runs inside.
  return caught([&]() -> ibcoll_status {
    ibcoll_launch_options copy;
    const auto whole = of_this_version("ibcoll_launch_options", options, copy);
    if (!whole) return report(whole.error());
    const Result<ContextOptions> context_options = options_of(**whole);
    if (!context_options) return report(context_options.error());
    LaunchOptions launch;
    launch.ranks = (*whole)->ranks;
    const Result<bool> bind = flag("bind", (*whole)->bind);
    if (!bind) return report(bind.error());
    launch.bind = *bind;
    const Result<bool> keep = flag("keep_survivors", (*whole)->keep_survivors);
    if (!keep) return report(keep.error());
    launch.keep_survivors = *keep;
    const Result<int> status = launch_processes(launch, [&](Bootstrap& bootstrap) {
      return run_rank(bootstrap, *context_options, launch.keep_survivors, main, argument);
    });
    if (!status) return report(status.error());
    if (exit_status != nullptr) *exit_status = *status;
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_init(ibcoll_context** context) {
  if (context == nullptr) return refuse("the place for the context is null");
  return guarded([&] { return enter(join_job(), false, {}, context); });
}

ibcoll_status ibcoll_init_with(const ibcoll_bootstrap* bootstrap, ibcoll_context** context) {
  if (bootstrap == nullptr || context == nullptr)
    return refuse("the bootstrap or the place for the context is null");
  return guarded([&]() -> ibcoll_status {
    const Result<ibcoll_bootstrap> given = checked(*bootstrap);
    if (!given) return report(given.error());
    CallerAsHost host(*given);
    return enter(join_job_of(host), true, {given->progress, given->host}, context);
  });
}

ibcoll_status ibcoll_finalize(ibcoll_context* context) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (!context->bootstrap) return refuse("this context belongs to ibcoll_launch, which ends it");
  return guarded([&]() -> ibcoll_status {
    if (const ibcoll_status alone = check_alone(*context); alone != IBCOLL_OK) return alone;
    context->context->threads().stop();
    const std::string left = leftovers(*context);
    const Status closed = leave(*context);
    Contexts::give_back(*context);
    if (!closed) return report(closed.error());
    if (left.empty()) return IBCOLL_OK;
    return refuse(fmt::format("the job was left, but {} had not been freed", left));
  });
}

ibcoll_status ibcoll_abort(ibcoll_context* context, const char* message) {
  if (!is_live(context)) return refuse_handle("context", context);
  return inside(*context, [&] {
    const Rank me = context->context->rank();
    context->context->executor().abort(
        {me, ErrorCode::kPeerFailed,
         fmt::format("rank {} gave up: {}", me, printable(message == nullptr ? "" : message))});
    return IBCOLL_OK;
  });
}
