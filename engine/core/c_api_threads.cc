// The C interface: threads of the program's and of the engine's own, and progress without a call.

#include <fmt/format.h>

#include "engine/core/c_api.h"
#include "engine/core/c_api_structs.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

ibcoll_status ibcoll::c_api::check_alone(ibcoll_context& context) {
  const EntryGuard::Entry entry(context.context->threads().guard());
  if (entry.refused() != nullptr) return refuse(entry.refused());
  if (entry.has_company())
    return refuse("another thread is in a call: wait until it has come back");
  return IBCOLL_OK;
}

ibcoll_thread_level ibcoll_get_thread_level(const ibcoll_context* context) {
  const bool several = is_live(context) && context->context->threads().guard().lets_several_in();
  return several ? IBCOLL_THREAD_MULTIPLE : IBCOLL_THREAD_SERIALIZED;
}

ibcoll_status ibcoll_set_thread_level(ibcoll_context* context, ibcoll_thread_level level) {
  if (!is_live(context)) return refuse_handle("context", context);
  return guarded([&]() -> ibcoll_status {
    const int number = number_of(level);
    if (number != IBCOLL_THREAD_SERIALIZED && number != IBCOLL_THREAD_MULTIPLE)
      return refuse(fmt::format("there is no thread level {}", number));
    if (const ibcoll_status alone = check_alone(*context); alone != IBCOLL_OK) return alone;
    ContextThreads& threads = context->context->threads();
    return give(threads.use(number == IBCOLL_THREAD_MULTIPLE, threads.has_progress_thread()));
  });
}

ibcoll_status ibcoll_set_progress_thread(ibcoll_context* context, int on) {
  if (!is_live(context)) return refuse_handle("context", context);
  return guarded([&]() -> ibcoll_status {
    if (const ibcoll_status alone = check_alone(*context); alone != IBCOLL_OK) return alone;
    ContextThreads& threads = context->context->threads();
    return give(threads.use(threads.guard().lets_several_in(), on != 0));
  });
}

ibcoll_status ibcoll_progress(ibcoll_context* context, int* moved) {
  if (moved != nullptr) *moved = 0;
  if (!is_live(context)) return refuse_handle("context", context);
  return inside_call(*context, [&] {
    const Result<bool> round = context->context->executor().progress_of_all();
    if (moved != nullptr) *moved = round && *round ? 1 : 0;
    return give(round);
  });
}

ibcoll_status ibcoll_get_descriptor(ibcoll_context* context, int* fd) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (fd == nullptr) return refuse("the place for the descriptor is null");
  return inside(*context, [&] {
    const auto descriptor = context->context->threads().descriptor();
    if (descriptor) *fd = (*descriptor)->fd();
    return give(descriptor);
  });
}

ibcoll_status ibcoll_arm(ibcoll_context* context, int* armed) {
  if (armed == nullptr) return refuse("the place for the answer is null");
  *armed = 0;
  if (!is_live(context)) return refuse_handle("context", context);
  return inside_call(*context, [&]() -> ibcoll_status {
    const auto descriptor = context->context->threads().descriptor();
    if (!descriptor) return report(descriptor.error());
    const Result<bool> now = context->context->executor().arm(**descriptor);
    *armed = now && *now ? 1 : 0;
    return give(now);
  });
}
