#pragma once
/// Jobs of the C++ interface.

#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <string>

#include "tests/api_job.h"

namespace ibcoll::testing {

inline constexpr int kRanks = 4;

/// Throws `what` unless it is good.
void expect(bool good, const std::string& what);

/// Runs `body` on every rank of a job of four, as one server, as two, and as four.
std::string on_four_ranks(const std::function<void(const context&)>& body);

/// What the call throws; its text is "" if it throws nothing.
struct Thrown {
  std::string text;
  ibcoll_status status = IBCOLL_OK;
  ibcoll_scope scope = IBCOLL_SCOPE_NONE;
};
Thrown thrown_by(const std::function<void()>& call);

}  // namespace ibcoll::testing
