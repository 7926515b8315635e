#include "perf/compare/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine.h"
#include "perf/compare/machines.h"
#include "tools/frame/frame.h"

namespace ibcoll::compare {
namespace {

/// What each rank's buffers take, of the rank and the call that need most.
Jobs::Room room_for(const Options& options, int ranks) {
  Jobs::Room room;
  contest_blocks blocks{};
  for (const contest_collective collective : options.collectives) {
    for (const int64_t size : options.sizes) {
      for (int rank = 0; rank < ranks; ++rank) {
        contest_describe(collective, ranks, rank, size, &blocks);
        room.send = std::max(room.send, static_cast<uint64_t>(blocks.send_end));
        room.receive = std::max(room.receive, static_cast<uint64_t>(blocks.receive_end));
        // The root's one buffer.
        if (collective == CONTEST_BCAST) room.receive = std::max(room.receive, room.send);
      }
    }
  }
  return room;
}

struct Wanted {
  const Options& options;
  contest_collective collective;
  int ranks;
  std::vector<int64_t> sizes;
  std::vector<size_t> which;  ///< of all contenders
  int rounds;
};

Result<Measured> measure(const Wanted& wanted, const std::vector<Contender>& all, Jobs& jobs) {
  const Options& options = wanted.options;
  const size_t contenders = wanted.which.size(), sizes = wanted.sizes.size();
  Measured measured;
  for (const size_t one : wanted.which) measured.names.push_back(all[one].name);
  measured.rounds.assign(contenders,
                         std::vector<Rounds>(sizes, Rounds(static_cast<size_t>(wanted.rounds))));
  measured.sent_bytes.assign(contenders, std::vector<uint64_t>(sizes, 0));
  Jobs::Order order;
  order.collective = wanted.collective;
  order.after_barrier = options.after_barrier;
  for (int round = 0; round < wanted.rounds; ++round) {
    for (size_t size = 0; size < sizes; ++size) {
      for (size_t turn = 0; turn < contenders; ++turn) {
        // Another one first in every round: nobody always follows the same neighbour.
        const size_t at = (turn + static_cast<size_t>(round)) % contenders;
        const size_t contender = wanted.which[at];
        show_progress(fmt::format("{}, {} ranks, round {} of {}, {} bytes, {}",
                                  contest_name(wanted.collective), wanted.ranks, round + 1,
                                  wanted.rounds, format_size(wanted.sizes[size]),
                                  all[contender].name));
        order.block_bytes = static_cast<uint64_t>(wanted.sizes[size]);
        order.batch_ns = static_cast<uint64_t>(options.batch_ns);
        order.samples = options.samples;
        order.check = round == 0;
        const uint64_t before = options.on_machines() ? sent_between_machines() : 0;
        IBCOLL_ASSIGN(measured.rounds[at][size][static_cast<size_t>(round)],
                      jobs.measure(contender, order));
        if (options.on_machines())
          measured.sent_bytes[at][size] += sent_between_machines() - before;
      }
    }
  }
  show_progress("");
  return measured;
}

}  // namespace

double median_of_all(const Rounds& rounds) {
  std::vector<double> all;
  for (const auto& round : rounds) all.insert(all.end(), round.begin(), round.end());
  return median(all);
}

Interval ratio(const std::vector<const Rounds*>& theirs, const Rounds& ours) {
  const auto fastest = [&](const auto& of) {
    double best = HUGE_VAL;
    for (const Rounds* one : theirs) best = std::min(best, of(*one));
    return best;
  };
  const double of_all = fastest(median_of_all) / median_of_all(ours);
  Interval result{of_all, of_all, of_all};
  for (size_t round = 0; round < ours.size(); ++round) {
    const double one =
        fastest([&](const Rounds& rounds) { return median(rounds[round]); }) / median(ours[round]);
    result.low = std::min(result.low, one);
    result.high = std::max(result.high, one);
  }
  return result;
}

std::vector<double> medians(const Rounds& rounds) {
  std::vector<double> all;
  for (const auto& round : rounds) all.push_back(median(round));
  return all;
}

Interval interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t count = values.size();
  // All but k values or fewer lie on one side of the median as often as so many throws of a coin
  // come out alike.
  constexpr double kOutside = 0.05;
  double chance = std::pow(0.5, static_cast<double>(count)), outside = 2 * chance;
  size_t left_out = 0;
  while (outside <= kOutside) {
    ++left_out;
    chance *= static_cast<double>(count - left_out + 1) / static_cast<double>(left_out);
    outside += 2 * chance;
  }
  const size_t low = left_out == 0 ? 0 : left_out - 1;
  return {median(values), values[low], values[count - 1 - low]};
}

const Rounds* Measured::find(std::string_view name, size_t size) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return &rounds[i][size];
  }
  return nullptr;
}

std::vector<const Rounds*> Measured::mpis(size_t size) const {
  std::vector<const Rounds*> found;
  for (const char* name : {"openmpi", "openmpi_ucx", "mpich"}) {
    if (const Rounds* one = find(name, size)) found.push_back(one);
  }
  return found;
}

void show_progress(const std::string& text) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", text);
}

Result<int> run_comparison(const std::function<Result<int>()>& run) {
  usable_cores();
  handle_interrupts();
  Result<int> done = run();
  if (done) return done;
  show_progress("");
  if (!interrupted()) return tl::unexpected<Error>(done.error());
  tools::complain(done.error().message);
  return 130;
}

bool is_comparable(contest_collective collective, int ranks) {
  return collective != CONTEST_NEIGHBOR_ALLTOALL || ranks > CONTEST_NEIGHBORS;
}

std::vector<int64_t> sizes_of(const Options& options, contest_collective collective) {
  return collective == CONTEST_BARRIER ? std::vector<int64_t>{0} : options.sizes;
}

Result<Measured> measure(const Options& options, contest_collective collective, int ranks,
                         const std::vector<Contender>& all, Jobs& jobs) {
  std::vector<size_t> which(all.size());
  std::iota(which.begin(), which.end(), 0);
  return measure({options, collective, ranks, sizes_of(options, collective), which, options.rounds},
                 all, jobs);
}

Result<Measured> measure_again(const Options& options, contest_collective collective, int ranks,
                               int64_t bytes, const std::vector<size_t>& which, int rounds,
                               const std::vector<Contender>& all, Jobs& jobs) {
  return measure({options, collective, ranks, {bytes}, which, rounds}, all, jobs);
}

Result<Jobs> start(const Options& options, const std::vector<Contender>& all, int ranks) {
  IBCOLL_ASSIGN(Jobs jobs,
                Jobs::start(all, ranks, room_for(options, ranks), options.on_machines()));
  // Nobody is timed while others still start up: everybody has answered once before.
  for (size_t contender = 0; contender < all.size(); ++contender) {
    Jobs::Order order;
    order.collective = CONTEST_BARRIER;
    order.batch_ns = 1;
    order.samples = 1;
    IBCOLL_TRY(jobs.measure(contender, order));
  }
  return jobs;
}

Status check_memory(const Options& options, int contenders) {
  const int64_t ranks = *std::max_element(options.ranks.begin(), options.ranks.end());
  const Jobs::Room room = room_for(options, static_cast<int>(ranks));
  const double wanted = 1.0 * contenders * static_cast<double>(ranks) *
                        static_cast<double>(room.send + room.receive),
               available = static_cast<double>(available_memory());
  if (wanted > 0.9 * available) {
    return fail(ErrorCode::kNoMemory,
                "not enough memory: the buffers of {} ranks take {:.1f} GB in {} contenders, "
                "{:.1f} GB are available",
                ranks, wanted / 1e9, contenders, available / 1e9);
  }
  return {};
}

}  // namespace ibcoll::compare
