// The C interface: memory, requests, counters. Start and end are in c_api_job.cc, groups in
// c_api_groups.cc, calls in c_api_calls.cc.

#include "engine/core/c_api.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/core/counters.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

static thread_local std::string t_error;

namespace ibcoll::c_api {

ibcoll_status report(const Error& error) noexcept {
  try {
    t_error = fmt::format("ibcoll: {}: {}", to_string(error.code), error.message);
  } catch (const std::exception&) {
    t_error.clear();  // not even memory for the line
  }
  // Files are named by variables of the environment here, which are arguments, too.
  if (error.code == ErrorCode::kInput) return IBCOLL_ERR_INVALID;
  return static_cast<ibcoll_status>(error.code);
}

ibcoll_status refuse(std::string message) noexcept {
  return report({ErrorCode::kInvalidArgument, std::move(message)});
}

ibcoll_status refuse_handle(const char* what, const void* handle) noexcept {
  return guarded([&] {
    if (handle == nullptr) return refuse(fmt::format("the {} is null", what));
    return refuse(
        fmt::format("this {} is none any more: it was freed, or its job has ended", what));
  });
}

void drop(ibcoll_request& request) {
  request.call.reset();
  request.context->requests.give_back(request);
}

}  // namespace ibcoll::c_api

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

int ibcoll_rank(const ibcoll_context* context) {
  return is_live(context) ? context->context->rank() : -1;
}

int ibcoll_size(const ibcoll_context* context) {
  return is_live(context) ? context->context->size() : -1;
}

int ibcoll_servers(const ibcoll_context* context) {
  return is_live(context) ? context->context->shape().servers() : -1;
}

int ibcoll_server_of(const ibcoll_context* context, int rank) {
  return rank < 0 || rank >= ibcoll_size(context) ? -1 : context->context->shape().server_of(rank);
}

ibcoll_thread_level ibcoll_get_thread_level(const ibcoll_context*) {
  return IBCOLL_THREAD_SERIALIZED;
}

ibcoll_status ibcoll_alloc(ibcoll_context* context, size_t bytes, void** address) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (address == nullptr) return refuse("the place for the address is null");
  return inside(*context, [&] {
    const Result<void*> memory = context->context->allocate(bytes);
    if (memory) *address = *memory;
    return give(memory);
  });
}

ibcoll_status ibcoll_free(ibcoll_context* context, void* address) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (address == nullptr) return IBCOLL_OK;
  return inside(*context, [&] { return give(context->context->free(address)); });
}

ibcoll_status ibcoll_start(ibcoll_request* request) {
  if (!is_live(request)) return refuse_handle("request", request);
  if (!request->persistent)
    return refuse("only persistent requests are started; this one was when it was made");
  return inside_job(*request->context, [&] { return give(request->call->start()); });
}

ibcoll_status ibcoll_test(ibcoll_request** request, int* done) {
  if (request == nullptr || done == nullptr)
    return refuse("the request or the place for the answer is null");
  *done = 1;
  if (*request == nullptr) return IBCOLL_OK;
  if (!is_live(*request)) return refuse_handle("request", *request);
  return inside(*(*request)->context, [&] {
    const Result<bool> finished = (*request)->call->test();
    if (finished) *done = *finished ? 1 : 0;
    if (*done != 0 && !(*request)->persistent) {
      drop(**request);
      *request = nullptr;
    }
    return give(finished);
  });
}

ibcoll_status ibcoll_wait(ibcoll_request** request) {
  if (request == nullptr) return refuse("the place of the request is null");
  if (*request == nullptr) return IBCOLL_OK;
  if (!is_live(*request)) return refuse_handle("request", *request);
  return inside(*(*request)->context, [&] {
    const Status waited = (*request)->call->wait();
    if (!(*request)->persistent) {
      drop(**request);
      *request = nullptr;
    }
    return give(waited);
  });
}

ibcoll_status ibcoll_wait_all(int count, ibcoll_request** requests) {
  if (count < 0 || (count > 0 && requests == nullptr))
    return refuse("the requests are null or their number is negative");
  ibcoll_status first = IBCOLL_OK;
  std::string line;
  for (int i = 0; i < count; ++i) {
    const ibcoll_status status = ibcoll_wait(&requests[i]);
    if (first != IBCOLL_OK || status == IBCOLL_OK) continue;
    first = status;
    line = t_error;
  }
  if (first != IBCOLL_OK) t_error = std::move(line);
  return first;
}

ibcoll_status ibcoll_request_free(ibcoll_request* request) {
  if (request == nullptr) return IBCOLL_OK;
  if (!is_live(request)) return refuse_handle("request", request);
  return inside(*request->context, [&]() -> ibcoll_status {
    // Nothing of a job that has ended is under way.
    if (request->call->under_way() && !request->context->context->executor().failed())
      return refuse("the request is under way: wait for it before it is freed");
    drop(*request);
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_get_counters(const ibcoll_context* context, ibcoll_counters* counters) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (counters == nullptr) return refuse("the place for the counters is null");
  *counters = {};
  if (const NetworkTransport* network = context->context->network()) {
    const TransportCounters& all = network->counters();
    *counters = {all.data_messages, all.tokens, all.data_bytes};
  }
  return IBCOLL_OK;
}

ibcoll_status ibcoll_get_named_counter(const ibcoll_context* context, int index, const char** name,
                                       uint64_t* value) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (name == nullptr || value == nullptr) return refuse("the place for the counter is null");
  return guarded([&]() -> ibcoll_status {
    const std::vector<NamedCounter> all = all_counters(context->context->network());
    if (index < 0 || static_cast<size_t>(index) >= all.size())
      return refuse(fmt::format("there is no counter {}: there are {}", index, all.size()));
    // The names are literals, which end with a null.
    *name = all[static_cast<size_t>(index)].name.data();
    *value = all[static_cast<size_t>(index)].value;
    return IBCOLL_OK;
  });
}

const char* ibcoll_transport(const ibcoll_context* context) {
  if (!is_live(context)) return "none";
  const NetworkTransport* network = context->context->network();
  return network == nullptr ? "none" : network->name();
}
