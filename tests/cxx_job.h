#pragma once
/// Jobs of the C++ interface.

#include <exception>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <stdexcept>
#include <string>

#include "tests/api_job.h"

namespace ibcoll::testing {

inline constexpr int kRanks = 4;

inline void expect(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

/// Runs `body` on every rank of a job of four, as one server, as two, and as four.
inline std::string on_four_ranks(const std::function<void(const context&)>& body) {
  std::string all;
  for (const char* layout : {"4", "2,2", "1,1,1,1"}) {
    all += launched(layout, kRanks, [&](const ApiRank& rank) {
      try {
        body(context(rank.context));
      } catch (const std::exception& e) {
        rank.complain(e.what());
        ibcoll_abort(rank.context, e.what());  // the others wait for its messages
      }
    });
  }
  return all;
}

/// What the call throws; its text is "" if it throws nothing.
struct Thrown {
  std::string text;
  ibcoll_status status = IBCOLL_OK;
  ibcoll_scope scope = IBCOLL_SCOPE_NONE;
};
inline Thrown thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const error& e) {
    return {e.what(), e.status(), e.scope()};
  } catch (const std::invalid_argument& e) {
    return {e.what()};
  }
  return {};
}

}  // namespace ibcoll::testing
