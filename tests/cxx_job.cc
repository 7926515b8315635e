#include "tests/cxx_job.h"

#include <exception>
#include <stdexcept>

namespace ibcoll::testing {

void expect(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

std::string on_four_ranks(const std::function<void(const context&)>& body) {
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

Thrown thrown_by(const std::function<void()>& call) {
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
