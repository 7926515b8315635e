// The C interface: errors, counters. Start and end are in c_api_job.cc, memory in c_api_memory.cc,
// groups in c_api_groups.cc, calls and requests in c_api_calls.cc, multicasts in
// c_api_multicast.cc.

#include "engine/core/c_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/quote.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/counters.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

static thread_local LastError t_error;

namespace ibcoll::c_api {

LastError& last_error() noexcept { return t_error; }

ibcoll_status report(const Error& error) noexcept {
  static_assert(static_cast<int>(Scope::kJob) == IBCOLL_SCOPE_JOB);
  static_assert(static_cast<int>(ErrorCode::kBusy) == IBCOLL_ERR_BUSY);
  t_error.scope = static_cast<ibcoll_scope>(error.scope);
  try {
    // The message may have names and texts of the program's in it.
    t_error.line = fmt::format("ibcoll: {}: {}", to_string(error.code), printable(error.message));
  } catch (const std::exception&) {
    // Not even memory for the line.
    t_error.line.clear();
    const auto end = fmt::format_to_n(t_error.spare.data(), t_error.spare.size() - 1,
                                      "ibcoll: {}: {}", to_string(error.code), error.message);
    *end.out = '\0';
    std::replace_if(
        t_error.spare.data(), end.out, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  }
  // Files are named by variables of the environment here, which are arguments, too.
  if (error.code == ErrorCode::kInput) return IBCOLL_ERR_INVALID;
  return static_cast<ibcoll_status>(error.code);
}

ibcoll_status refuse(std::string_view message) noexcept {
  return guarded([&] { return report({ErrorCode::kInvalidArgument, std::string(message)}); });
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
  request.counts = {};
  request.multicast.reset();
  request.context->requests.give_back(request);
}

}  // namespace ibcoll::c_api

const char* ibcoll_last_error(void) {
  return t_error.line.empty() ? t_error.spare.data() : t_error.line.c_str();
}

ibcoll_scope ibcoll_last_error_scope(void) { return t_error.scope; }

const char* ibcoll_status_text(ibcoll_status status) {
  const int number = number_of(status);
  if (number == IBCOLL_OK) return "success";
  if (number > 0 && number <= IBCOLL_ERR_BUSY) return to_string(static_cast<ErrorCode>(number));
  static thread_local std::array<char, 32> t_text;
  std::snprintf(t_text.data(), t_text.size(), "unknown status %d", number);
  return t_text.data();
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

ibcoll_status ibcoll_get_counters(const ibcoll_context* context, ibcoll_counters* counters) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (counters == nullptr) return refuse("the place for the counters is null");
  return inside(*context, [&]() -> ibcoll_status {
    ibcoll_counters result = IBCOLL_COUNTERS_INIT;
    if (const NetworkTransport* network = context->context->job().network()) {
      const TransportCounters& all = network->counters();
      result = {sizeof result, all.data_messages, all.tokens, all.data_bytes};
    }
    return give(fill_in("ibcoll_counters", result, *counters));
  });
}

ibcoll_status ibcoll_get_named_counter(const ibcoll_context* context, int index, const char** name,
                                       uint64_t* value) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (name == nullptr || value == nullptr) return refuse("the place for the counter is null");
  return inside(*context, [&]() -> ibcoll_status {
    const std::vector<NamedCounter> all = all_counters(context->context->job().network());
    if (index < 0 || static_cast<size_t>(index) >= all.size())
      return refuse(fmt::format("there is no counter {}: there are {}", index, all.size()));
    // The names are literals, which end with a null.
    *name = all[static_cast<size_t>(index)].name.data();
    *value = all[static_cast<size_t>(index)].value;
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_get_learned_way(const ibcoll_context* context, int index,
                                     ibcoll_learned_way* way) {
  static_assert(IBCOLL_WAYS == kMessageWays &&
                IBCOLL_WAY_STREAMED == static_cast<int>(MessageWay::kStreamed) &&
                IBCOLL_WAY_READ == static_cast<int>(MessageWay::kRead));
  if (!is_live(context)) return refuse_handle("context", context);
  if (way == nullptr) return refuse("the place for the way is null");
  return inside(*context, [&]() -> ibcoll_status {
    const std::vector<shm::LearnedWay> all = context->context->job().local().learned();
    if (index < 0 || static_cast<size_t>(index) >= all.size())
      return refuse(fmt::format("there is no way {}: there are {}", index, all.size()));
    const shm::LearnedWay& learned = all[static_cast<size_t>(index)];
    ibcoll_learned_way result = IBCOLL_LEARNED_WAY_INIT;
    result.from = learned.sort.from();
    result.to = learned.sort.to();
    result.private_memory = !learned.sort.shared;
    result.one_way = learned.sort.one_way;
    result.way = learned.way ? static_cast<int>(*learned.way) : IBCOLL_WAY_USUAL;
    result.peers = learned.peers;
    for (size_t i = 0; i < kMessageWays; ++i) result.us[i] = learned.ns[i] / 1000;
    return give(fill_in("ibcoll_learned_way", result, *way));
  });
}

const char* ibcoll_transport(const ibcoll_context* context) {
  if (!is_live(context)) return "none";
  const NetworkTransport* network = context->context->job().network();
  return network == nullptr ? "none" : network->name();
}
