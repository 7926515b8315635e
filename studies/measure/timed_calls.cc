#include "studies/measure/timed_calls.h"

#include <algorithm>
#include <cmath>

#include "engine/base/clock.h"

namespace ibcoll::measure {

Status TimedCalls::prepare() {
  const EntryGuard::Entry entry(context_.threads().guard());
  CallArguments barrier;
  barrier.collective = Collective::kBarrier;
  return barrier_.prepare(barrier);
}

Status TimedCalls::call(const CallArguments& arguments) {
  const EntryGuard::Entry entry(context_.threads().guard());
  IBCOLL_TRY(call_.prepare(arguments));
  IBCOLL_TRY(call_.start());
  return call_.wait();
}

Status TimedCalls::synchronise() {
  const EntryGuard::Entry entry(context_.threads().guard());
  IBCOLL_TRY(barrier_.start());
  return barrier_.wait();
}

Result<double> TimedCalls::batch(const CallArguments& arguments, int64_t calls) {
  const int64_t begin = now_ns();
  for (int64_t i = 0; i < calls; ++i) IBCOLL_TRY(call(arguments));
  return static_cast<double>(now_ns() - begin) / static_cast<double>(calls);
}

Result<int64_t> TimedCalls::calls_in(int64_t batch_ns, const CallArguments& arguments) {
  int64_t calls = 1;
  std::vector<int64_t> proposed(static_cast<size_t>(bootstrap_.size()));
  for (bool enough = false; !enough;) {
    IBCOLL_TRY(synchronise());
    IBCOLL_ASSIGN(const double each, batch(arguments, calls));
    const double took = std::max(1.0, each * static_cast<double>(calls));
    const double wanted = static_cast<double>(batch_ns);
    enough = took * 2 >= wanted;
    const double fit = static_cast<double>(calls) * std::min(wanted / took, 16.0);
    int64_t next = std::max<int64_t>(1, std::llround(fit));
    if (!enough) next = -next;  // go on growing
    IBCOLL_TRY(bootstrap_.allgather(&next, sizeof next, proposed.data()));
    enough = proposed[0] > 0;
    calls = std::abs(proposed[0]);
  }
  return calls;
}

Status take_slowest(Bootstrap& bootstrap, std::vector<double>& times) {
  std::vector<double> all(times.size() * static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(times.data(), times.size() * sizeof(double), all.data()));
  for (size_t i = 0; i < all.size(); ++i) {
    double& slowest = times[i % times.size()];
    slowest = std::max(slowest, all[i]);
  }
  return {};
}

}  // namespace ibcoll::measure
