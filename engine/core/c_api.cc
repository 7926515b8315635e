// The C interface: start and end, memory, groups, requests, counters. Calls are in c_api_calls.cc.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/bootstrap/join.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/c_api.h"
#include "engine/core/counters.h"
#include "engine/schedule/layout.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

static thread_local std::string t_error;

namespace ibcoll::c_api {

ibcoll_status report(const Error& error) {
  t_error = fmt::format("ibcoll: {}: {}", to_string(error.code), error.message);
  return static_cast<ibcoll_status>(error.code);
}

ibcoll_status refuse(std::string message) {
  return report({ErrorCode::kInvalidArgument, std::move(message)});
}

}  // namespace ibcoll::c_api

namespace {

ibcoll_status make_context(Bootstrap& bootstrap, const ContextOptions& options,
                           ibcoll_context& result) {
  Result<std::unique_ptr<Context>> context = Context::create(bootstrap, options);
  if (!context) {
    bootstrap.abort({bootstrap.rank(), context.error().code, context.error().message});
    return report(context.error());
  }
  result.context = std::move(*context);
  result.world.group = &result.context->world();
  return IBCOLL_OK;
}

}  // namespace

const char* ibcoll_last_error(void) { return t_error.c_str(); }

const char* ibcoll_status_text(ibcoll_status status) {
  return status == IBCOLL_OK ? "success" : to_string(static_cast<ErrorCode>(status));
}

#define IBCOLL_TEXT_OF(x) #x
#define IBCOLL_TEXT(x) IBCOLL_TEXT_OF(x)
const char* ibcoll_version(void) {
  return IBCOLL_TEXT(IBCOLL_VERSION_MAJOR) "." IBCOLL_TEXT(IBCOLL_VERSION_MINOR) "." IBCOLL_TEXT(
      IBCOLL_VERSION_PATCH);
}

ibcoll_status ibcoll_launch(const ibcoll_launch_options* options,
                            int (*main)(ibcoll_context*, void*), void* argument, int* exit_status) {
  if (options == nullptr || main == nullptr)
    return refuse("the launch options or the function to run are null");
  Result<ContextOptions> context_options = ContextOptions::from_environment(options->ranks);
  if (!context_options) return report(context_options.error());
  if (options->layout != nullptr) {
    const Result<Placement> placement =
        parse_placement(options->placement == nullptr ? "block" : options->placement);
    if (!placement) return report(placement.error());
    Result<Shape> shape =
        shape_from_options(options->layout, options->ranks, std::nullopt, *placement);
    if (!shape) return report(shape.error());
    context_options->shape = std::move(*shape);
  }
  LaunchOptions launch;
  launch.ranks = options->ranks;
  launch.bind = options->bind != 0;
  const Result<int> status = launch_processes(launch, [&](Bootstrap& bootstrap) {
    ibcoll_context context;
    if (make_context(bootstrap, *context_options, context) != IBCOLL_OK) {
      fmt::print(stderr, "{}\n", t_error);
      return 1;
    }
    const int result = main(&context, argument);
    context.world.blocking.reset();
    (void)context.context->close();
    return result;
  });
  if (!status) return report(status.error());
  if (exit_status != nullptr) *exit_status = *status;
  return IBCOLL_OK;
}

ibcoll_status ibcoll_init(ibcoll_context** context) {
  if (context == nullptr) return refuse("the place for the context is null");
  Result<std::unique_ptr<Bootstrap>> bootstrap = join_job();
  if (!bootstrap) return report(bootstrap.error());
  const Result<ContextOptions> options = ContextOptions::from_environment((*bootstrap)->size());
  if (!options) return report(options.error());
  auto made = std::make_unique<ibcoll_context>();
  made->bootstrap = std::move(*bootstrap);
  const ibcoll_status status = make_context(*made->bootstrap, *options, *made);
  if (status == IBCOLL_OK) *context = made.release();
  return status;
}

ibcoll_status ibcoll_finalize(ibcoll_context* context) {
  if (context == nullptr) return refuse("the context is null");
  if (!context->bootstrap) return refuse("this context belongs to ibcoll_launch, which ends it");
  context->world.blocking.reset();
  const Status closed = context->context->close();
  context->context.reset();
  delete context;
  return give(closed);
}

int ibcoll_rank(const ibcoll_context* context) { return context->context->rank(); }
int ibcoll_size(const ibcoll_context* context) { return context->context->size(); }
int ibcoll_servers(const ibcoll_context* context) { return context->context->shape().servers(); }

int ibcoll_server_of(const ibcoll_context* context, int rank) {
  return rank < 0 || rank >= ibcoll_size(context) ? -1 : context->context->shape().server_of(rank);
}

ibcoll_thread_level ibcoll_get_thread_level(const ibcoll_context*) {
  return IBCOLL_THREAD_SERIALIZED;
}

ibcoll_status ibcoll_abort(ibcoll_context* context, const char* message) {
  const Rank me = context->context->rank();
  context->context->executor().abort(
      {me, ErrorCode::kPeerFailed,
       fmt::format("rank {} gave up: {}", me, message == nullptr ? "" : message)});
  return IBCOLL_OK;
}

ibcoll_status ibcoll_alloc(ibcoll_context* context, size_t bytes, void** address) {
  if (context == nullptr || address == nullptr)
    return refuse("the context or the place for the address is null");
  const Context::Entry entry(*context->context);
  if (entry.refused() != nullptr) return refuse(entry.refused());
  const Result<void*> memory = context->context->allocate(bytes);
  if (memory) *address = *memory;
  return give(memory);
}

ibcoll_status ibcoll_free(ibcoll_context* context, void* address) {
  if (context == nullptr) return refuse("the context is null");
  if (address == nullptr) return IBCOLL_OK;
  const Context::Entry entry(*context->context);
  if (entry.refused() != nullptr) return refuse(entry.refused());
  return give(context->context->free(address));
}

ibcoll_group* ibcoll_world(ibcoll_context* context) { return &context->world; }

ibcoll_status ibcoll_group_create(ibcoll_context* context, const int* ranks, int count,
                                  ibcoll_group** group) {
  if (context == nullptr || ranks == nullptr || group == nullptr || count < 0) {
    return refuse(
        "the context, the ranks or the place for the group are null, or their number is negative");
  }
  const Context::Entry entry(*context->context);
  if (entry.refused() != nullptr) return refuse(entry.refused());
  Result<std::unique_ptr<Group>> made = context->context->create_group({ranks, ranks + count});
  if (!made) return report(made.error());
  *group = new ibcoll_group{made->get(), std::move(*made), nullptr};
  return IBCOLL_OK;
}

ibcoll_status ibcoll_group_free(ibcoll_group* group) {
  if (group == nullptr) return IBCOLL_OK;
  if (!group->owned) return refuse("the world group belongs to the context and can't be freed");
  delete group;
  return IBCOLL_OK;
}

int ibcoll_group_rank(const ibcoll_group* group) { return group->group->rank(); }
int ibcoll_group_size(const ibcoll_group* group) { return group->group->size(); }

ibcoll_status ibcoll_start(ibcoll_request* request) {
  if (request == nullptr) return refuse("the request is null");
  if (!request->persistent)
    return refuse("only persistent requests are started; this one was when it was made");
  const Context::Entry entry(request->call.group().context());
  if (entry.refused() != nullptr) return refuse(entry.refused());
  return give(request->call.start());
}

ibcoll_status ibcoll_test(ibcoll_request** request, int* done) {
  if (request == nullptr || done == nullptr)
    return refuse("the request or the place for the answer is null");
  *done = 1;
  if (*request == nullptr) return IBCOLL_OK;
  const Context::Entry entry((*request)->call.group().context());
  if (entry.refused() != nullptr) return refuse(entry.refused());
  const Result<bool> finished = (*request)->call.test();
  if (finished) *done = *finished ? 1 : 0;
  if (*done != 0 && !(*request)->persistent) {
    delete *request;
    *request = nullptr;
  }
  return give(finished);
}

ibcoll_status ibcoll_wait(ibcoll_request** request) {
  if (request == nullptr) return refuse("the request is null");
  if (*request == nullptr) return IBCOLL_OK;
  const Context::Entry entry((*request)->call.group().context());
  if (entry.refused() != nullptr) return refuse(entry.refused());
  const Status waited = (*request)->call.wait();
  if (!(*request)->persistent) {
    delete *request;
    *request = nullptr;
  }
  return give(waited);
}

ibcoll_status ibcoll_wait_all(int count, ibcoll_request** requests) {
  if (count < 0 || (count > 0 && requests == nullptr))
    return refuse("the requests are null or their number is negative");
  ibcoll_status first = IBCOLL_OK;
  for (int i = 0; i < count; ++i) {
    const ibcoll_status status = ibcoll_wait(&requests[i]);
    if (first == IBCOLL_OK) first = status;
  }
  return first;
}

ibcoll_status ibcoll_request_free(ibcoll_request* request) {
  if (request == nullptr) return IBCOLL_OK;
  if (request->call.under_way())
    return refuse("the request is under way: wait for it before it is freed");
  delete request;
  return IBCOLL_OK;
}

ibcoll_status ibcoll_get_counters(const ibcoll_context* context, ibcoll_counters* counters) {
  if (context == nullptr || counters == nullptr)
    return refuse("the context or the place for the counters is null");
  *counters = {};
  if (const NetworkTransport* network = context->context->network()) {
    const TransportCounters& all = network->counters();
    *counters = {all.data_messages, all.tokens, all.data_bytes};
  }
  return IBCOLL_OK;
}

ibcoll_status ibcoll_get_named_counter(const ibcoll_context* context, int index, const char** name,
                                       uint64_t* value) {
  if (context == nullptr || name == nullptr || value == nullptr)
    return refuse("the context or the place for the counter is null");
  const std::vector<NamedCounter> all = all_counters(context->context->network());
  if (index < 0 || static_cast<size_t>(index) >= all.size())
    return refuse(fmt::format("there is no counter {}: there are {}", index, all.size()));
  // The names are literals, which end with a null.
  *name = all[static_cast<size_t>(index)].name.data();
  *value = all[static_cast<size_t>(index)].value;
  return IBCOLL_OK;
}

const char* ibcoll_transport(const ibcoll_context* context) {
  const NetworkTransport* network = context->context->network();
  return network == nullptr ? "none" : network->name();
}
