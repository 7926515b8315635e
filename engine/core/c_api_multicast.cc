// The C interface: multicasts.

#include <cstdint>
#include <span>

#include "engine/base/clock.h"
#include "engine/core/c_api.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/known_time.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

constexpr int64_t kMaxUs = INT64_MAX / 1000 / 2;  // may be added to a time

Result<MulticastOptions> options_of(const ibcoll_multicast_options* given) {
  MulticastOptions options;
  if (given == nullptr) return options;
  ibcoll_multicast_options copy;
  IBCOLL_ASSIGN(const auto* whole, of_this_version("ibcoll_multicast_options", given, copy));
  if (whole->deadline_us < 0 || whole->deadline_us > kMaxUs) {
    return fail(ErrorCode::kInvalidArgument, "a deadline of {} us can't be right",
                whole->deadline_us);
  }
  if (whole->pieces > kMaxCut)
    return fail(ErrorCode::kInvalidArgument, "{} pieces: {} at most", whole->pieces, kMaxCut);
  options.tag = whole->tag;
  if (whole->algorithm != nullptr) options.algorithm = whole->algorithm;
  options.pieces = whole->pieces;
  IBCOLL_ASSIGN(options.acknowledged, flag("acknowledged", whole->acknowledged));
  options.time_limit_ns = whole->deadline_us * 1000;
  return options;
}

ibcoll_message message_of(const MulticastMessage& message) {
  return {message.data, message.bytes, message.tag, message.master, message.members, message.id, 0};
}

}  // namespace

namespace ibcoll::c_api {

ibcoll_status test(ibcoll_context& context, MulticastSend& send, int& done) {
  if (!send.completion.done) {
    const Result<bool> moved = context.context->executor().progress_of_all();
    if (!moved && !send.completion.done) {
      done = 1;
      return report(moved.error());
    }
  }
  done = send.completion.done ? 1 : 0;
  return done != 0 && !send.result ? report(send.result.error()) : IBCOLL_OK;
}

ibcoll_status wait(ibcoll_context& context, MulticastSend& send) {
  if (!send.completion.done) {
    if (const Status waited = context.context->executor().wait(send.completion, 0);
        !waited && !send.completion.done)
      return report(waited.error());
  }
  return give(send.result);
}

}  // namespace ibcoll::c_api

ibcoll_status ibcoll_multicast(ibcoll_context* context, const uint64_t* members, size_t words,
                               const void* data, size_t bytes,
                               const ibcoll_multicast_options* options, ibcoll_request** request) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (members == nullptr || (data == nullptr && bytes != 0))
    return refuse("the set or the data are null");
  return inside_job(*context, [&]() -> ibcoll_status {
    const Result<MulticastOptions> wanted = options_of(options);
    if (!wanted) return report(wanted.error());
    Result<RankSet> set = RankSet::from_bitmap({members, words}, context->context->size());
    if (!set) return report(set.error());
    auto send = context->context->multicasts().send(std::move(*set), data, bytes, *wanted);
    if (!send) return report(send.error());
    if (request == nullptr) return wait(*context, **send);
    ibcoll_request& made = context->requests.take();
    made.context = context;
    made.persistent = false;
    made.started = true;
    made.multicast = std::move(*send);
    *request = &made;
    context->context->threads().note_started();
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_multicast_missing(const ibcoll_request* request, int* ranks, int capacity,
                                       int* count) {
  if (!is_live(request)) return refuse_handle("request", request);
  if (!request->multicast) return refuse("the request is not a multicast's");
  if (count == nullptr || capacity < 0 || (ranks == nullptr && capacity != 0))
    return refuse("the places for the ranks or their number are null, or it is negative");
  return inside(*request->context, [&] {
    const std::vector<Rank>& missing = request->multicast->missing;
    *count = static_cast<int>(missing.size());
    for (int i = 0; i < *count && i < capacity; ++i) ranks[i] = missing[static_cast<size_t>(i)];
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_multicast_receive(ibcoll_context* context, int64_t timeout_us,
                                       const ibcoll_message** message) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (message == nullptr) return refuse("the place for the message is null");
  *message = nullptr;
  if (timeout_us < -1 || timeout_us > kMaxUs)
    return refuse(fmt::format("a timeout of {} us can't be right", timeout_us));
  return inside_call(*context, [&]() -> ibcoll_status {
    Multicasts& multicasts = context->context->multicasts();
    if (multicasts.has_handler()) return refuse("messages are handed to the program's handler");
    const int64_t until = timeout_us < 0 ? 0 : now_ns() + timeout_us * 1000;
    const Result<MulticastRun*> run = multicasts.wait_for_message(until);
    if (!run) return report(run.error());
    if (*run == nullptr) return IBCOLL_OK;
    TakenMessage& taken = context->messages.take();
    static_cast<ibcoll_message&>(taken) = message_of((*run)->message);
    taken.context = context;
    taken.run = *run;
    *message = &taken;
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_message_free(ibcoll_context* context, const ibcoll_message* message) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (message == nullptr) return IBCOLL_OK;
  auto* const taken = const_cast<TakenMessage*>(static_cast<const TakenMessage*>(message));
  if (!is_live(taken))
    return refuse("this message is none any more: it was freed, or its context has ended");
  if (taken->context != context)
    return refuse("this message is another context's: free it with the one that has received it");
  return inside(*context, [&] {
    context->context->multicasts().free(*taken->run);
    taken->run = nullptr;
    context->messages.give_back(*taken);
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_multicast_set_handler(ibcoll_context* context,
                                           ibcoll_multicast_handler handler, void* argument) {
  if (!is_live(context)) return refuse_handle("context", context);
  return inside_job(*context, [&] {
    Multicasts::Handler function;
    if (handler != nullptr) {
      const EntryGuard& guard = context->context->threads().guard();
      function = [handler, argument, &guard](const MulticastMessage& message) {
        const ibcoll_message handed = message_of(message);
        const InsideHandler inside_handler(guard);
        handler(argument, &handed);
      };
    }
    context->context->multicasts().set_handler(std::move(function));
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_multicast_bound(ibcoll_context* context, const uint64_t* members, size_t words,
                                     size_t bytes, const ibcoll_multicast_options* options,
                                     double* bound_us) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (members == nullptr || bound_us == nullptr)
    return refuse("the set or the place for the bound are null");
  return inside(*context, [&]() -> ibcoll_status {
    const Result<MulticastOptions> wanted = options_of(options);
    if (!wanted) return report(wanted.error());
    const Result<RankSet> set = RankSet::from_bitmap({members, words}, context->context->size());
    if (!set) return report(set.error());
    if (set->empty()) return refuse("a multicast to nobody");
    const Result<double> bound = multicast_bound_us(*context->context, *set, bytes, *wanted);
    if (bound) *bound_us = *bound;
    return give(bound);
  });
}

ibcoll_status ibcoll_multicast_get_counters(const ibcoll_context* context,
                                            ibcoll_multicast_counters* counters) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (counters == nullptr) return refuse("the place for the counters is null");
  return inside(*context, [&]() -> ibcoll_status {
    const Multicasts& multicasts = context->context->multicasts();
    ibcoll_multicast_counters now = IBCOLL_MULTICAST_COUNTERS_INIT;
    now.sent = multicasts.sent();
    now.received = multicasts.received();
    now.announced = multicasts.announced();
    now.mails_sent = multicasts.mails_sent();
    now.mails_received = multicasts.mails_received();
    now.memory_bytes = multicasts.pool().used();
    now.most_memory_bytes = multicasts.pool().most_used();
    return give(fill_in("ibcoll_multicast_counters", now, *counters));
  });
}
