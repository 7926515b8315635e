// The C interface: operators of the program's own.

#include "engine/core/c_api.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/own_operators.h"
#include "engine/execute/reduction.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

ibcoll_status ibcoll_operator_create(ibcoll_context* context,
                                     const ibcoll_operator_description* description,
                                     ibcoll_operator* op) {
  static_assert(OwnOperators::kFirst == IBCOLL_FIRST_OWN);
  if (!is_live(context)) return refuse_handle("context", context);
  if (description == nullptr || op == nullptr)
    return refuse("the operator's description or the place for the operator is null");
  return inside(*context, [&]() -> ibcoll_status {
    ibcoll_operator_description copy;
    const auto whole = of_this_version("ibcoll_operator_description", description, copy);
    if (!whole) return report(whole.error());
    const ibcoll_operator_description& given = **whole;
    const Result<bool> commutes = flag("commutes", given.commutes);
    if (!commutes) return report(commutes.error());
    const Result<int> made = context->context->own_operators().add(
        {given.element_bytes, given.combine, given.combine_reversed, given.context, given.release,
         given.identifier, *commutes});
    if (made) *op = static_cast<ibcoll_operator>(*made);
    return give(made);
  });
}

ibcoll_status ibcoll_operator_free(ibcoll_context* context, ibcoll_operator op) {
  if (!is_live(context)) return refuse_handle("context", context);
  return inside(*context,
                [&] { return give(context->context->own_operators().remove(number_of(op))); });
}

int ibcoll_has_operator(ibcoll_type type, ibcoll_operator op) {
  if (static_cast<unsigned>(type) >= kElementTypes || static_cast<unsigned>(op) >= kOperators)
    return 0;
  return has_operator(static_cast<ElementType>(type), static_cast<Operator>(op)) ? 1 : 0;
}
