#include "studies/measure/record_call.h"

#include <algorithm>

#include "studies/measure/clock_offset.h"

namespace ibcoll::measure {
namespace {

/// Everybody's list, one after the other.
template <class T>
Result<std::vector<std::vector<T>>> gather(Bootstrap& bootstrap, std::vector<T> mine) {
  const auto ranks = static_cast<size_t>(bootstrap.size());
  const uint64_t count = mine.size();
  std::vector<uint64_t> counts(ranks);
  IBCOLL_TRY(bootstrap.allgather(&count, sizeof count, counts.data()));
  const uint64_t most = *std::max_element(counts.begin(), counts.end());
  mine.resize(most);
  std::vector<T> all(ranks * most);
  IBCOLL_TRY(bootstrap.allgather(mine.data(), most * sizeof(T), all.data()));
  std::vector<std::vector<T>> lists;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(rank * most);
    lists.emplace_back(begin, begin + static_cast<ptrdiff_t>(counts[rank]));
  }
  return lists;
}

}  // namespace

Result<Recording> record_call(Context& context, Call& call) {
  Bootstrap& bootstrap = context.job().bootstrap();
  IBCOLL_ASSIGN(const ClockOffset clock, measure_clock_offset(bootstrap));
  CallRecord record;
  {
    const EntryGuard::Entry entry(context.threads().guard());
    context.executor().record_into(&record);
    Status done = call.start();
    if (done) done = call.wait();
    context.executor().record_into(nullptr);
    IBCOLL_TRY(done);
  }

  RankRecord& mine = record.rank;
  for (RecordedOp& op : mine.ops) {
    op.begin_ns -= clock.offset_ns;
    op.end_ns -= clock.offset_ns;
  }
  for (RecordedArrival& arrival : mine.arrivals) arrival.at_ns -= clock.offset_ns;

  Recording recording;
  recording.collective = record.program->collective;
  recording.algorithm = record.program->algorithm;
  recording.options = call.plan().options;
  recording.pieces = record.pieces;
  recording.hash = record.program->hash;
  recording.block_bytes = record.block_bytes;
  recording.transport =
      context.job().network() != nullptr ? context.job().network()->name() : "none";
  recording.shape = context.shape();
  struct Ends {
    int64_t begin_ns, end_ns, error_ns;
  };
  const Ends ends{mine.begin_ns - clock.offset_ns, mine.end_ns - clock.offset_ns, clock.error_ns};
  IBCOLL_ASSIGN(const auto all_ends, gather(bootstrap, std::vector<Ends>{ends}));
  IBCOLL_ASSIGN(auto all_ops, gather(bootstrap, std::move(mine.ops)));
  IBCOLL_ASSIGN(auto all_arrivals, gather(bootstrap, std::move(mine.arrivals)));
  for (size_t rank = 0; rank < all_ops.size(); ++rank) {
    const Ends& end = all_ends[rank].front();
    recording.ranks.push_back(
        {end.begin_ns, end.end_ns, std::move(all_ops[rank]), std::move(all_arrivals[rank])});
    // Between two machines that are both apart from rank 0's.
    recording.clock_error_ns = std::max(recording.clock_error_ns, 2 * end.error_ns);
  }
  return recording;
}

}  // namespace ibcoll::measure
