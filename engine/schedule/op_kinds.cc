#include "engine/schedule/op_kinds.h"

#include <string_view>

namespace ibcoll {

namespace {

constexpr bool in_order() {
  for (size_t i = 0; i < kOpKinds; ++i) {
    if (kOpMeanings[i].kind != static_cast<OpKind>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "operations stand in the table as in OpKind");

/// Whether OpKind has a name for that number: compilers print a cast of it otherwise.
template <OpKind kKind>
constexpr bool is_kind() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__, kBefore = "kKind = ";
  const char first = kText[kText.find(kBefore) + kBefore.size()];
  return first != '(' && (first < '0' || first > '9');
}
static_assert(is_kind<static_cast<OpKind>(kOpKinds - 1)>());
static_assert(!is_kind<static_cast<OpKind>(kOpKinds)>(), "an operation is missing in the table");

}  // namespace

const char* to_string(OpKind kind) { return meaning(kind).name; }

}  // namespace ibcoll
