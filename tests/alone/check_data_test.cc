// IBCOLL_CHECK: a bit that is flipped on its way, whichever way that is, ends the job with an error
// that names the call and the ranks. What moves data is wrapped by the linker (CMakeLists.txt), so
// nothing in the engine knows of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>
#include <sstream>

#include "engine/base/hash.h"
#include "engine/execute/reduction.h"
#include "tests/api_job.h"
#include "tests/multicast_job.h"
#include "tests/named.h"

namespace ibcoll {
namespace {

using testing::ApiRank;
using testing::group_of;
using ::testing::HasSubstr;
using testing::JobSettings;
using testing::launched;

/// Data of the test is known by itself: the upper half of a word's upper half is a mark, times the
/// ranks whose words were added up.
constexpr uint64_t kMark = 0x0101;
constexpr int kMarkShift = 48;
uint64_t word(int from, int to, size_t place) {
  const uint64_t bits =
      mix(mix(mix(7, static_cast<uint64_t>(from)), static_cast<uint64_t>(to)), place);
  return kMark << kMarkShift | bits >> 24;
}
bool is_word(uint64_t value) {
  const uint64_t mark = value >> kMarkShift;
  return mark != 0 && mark % kMark == 0 && mark / kMark <= 16 && (value >> 44 & 0xf) == 0;
}

/// Flips one bit in the so-many-th piece of data that a rank moves.
struct Flips {
  std::atomic<int> rank{-1};  ///< which one does
  std::atomic<int64_t> at{0};
  std::atomic<uint64_t> chance{0};
  std::atomic<int> done{0};
  std::atomic<int64_t> moved[16];  ///< by rank
};
Flips& flips() {
  static auto* const shared =
      new (mmap(nullptr, sizeof(Flips), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Flips;
  return *shared;
}
int armed_rank = -1;  ///< this process's, while it makes its call

void look_at(void* data, size_t bytes) {
  if (armed_rank < 0 || bytes < sizeof(uint64_t)) return;
  auto* const end = static_cast<unsigned char*>(data) + bytes;
  const auto at = [&](size_t from_end) {
    uint64_t value;
    __builtin_memcpy(&value, end - (from_end + 1) * sizeof value, sizeof value);  // no call
    return value;
  };
  if (!is_word(at(0))) return;
  Flips& all = flips();
  const int64_t number = all.moved[armed_rank]++;
  if (armed_rank != all.rank || number != all.at) return;
  const uint64_t chance = all.chance;
  size_t place = chance % (bytes / sizeof(uint64_t));
  if (!is_word(at(place))) place = 0;
  end[-static_cast<ptrdiff_t>((place + 1) * sizeof(uint64_t)) + (chance >> 32) % 8] ^=
      static_cast<unsigned char>(1u << (chance >> 40) % 8);
  all.done = 1;
}

Combine real_combine = nullptr;
const char* combine_and_look(void* target, const void* source, size_t bytes, void* context) {
  const char* const failure = real_combine(target, source, bytes, context);
  look_at(target, bytes);
  return failure;
}

}  // namespace
}  // namespace ibcoll

extern "C" {
void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  __real_memcpy(to, from, bytes);
  ibcoll::look_at(to, bytes);
  return to;
}
ssize_t __real_process_vm_readv(pid_t pid, const iovec* to, unsigned long to_count,
                                const iovec* from, unsigned long from_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* to, unsigned long to_count,
                                const iovec* from, unsigned long from_count, unsigned long flags) {
  const ssize_t read = __real_process_vm_readv(pid, to, to_count, from, from_count, flags);
  if (read > 0 && to_count == 1) ibcoll::look_at(to->iov_base, static_cast<size_t>(read));
  return read;
}
}

namespace ibcoll {

Result<Reduction> real_find_reduction(ElementType type, Operator op) __asm__(
    "__real__ZN6ibcoll14find_reductionENS_11ElementTypeENS_8OperatorE");
Result<Reduction> wrap_find_reduction(ElementType type, Operator op) __asm__(
    "__wrap__ZN6ibcoll14find_reductionENS_11ElementTypeENS_8OperatorE");
Result<Reduction> wrap_find_reduction(ElementType type, Operator op) {
  Result<Reduction> found = real_find_reduction(type, op);
  // The first one is that of the test's call.
  if (found && armed_rank >= 0 && real_combine == nullptr) {
    real_combine = found->combine;
    found->combine = found->combine_reversed = combine_and_look;
  }
  return found;
}

}  // namespace ibcoll

namespace ibcoll {
namespace {

struct Path {
  friend void PrintTo(const Path& path, std::ostream* out) { *out << path.name; }

  const char* name;
  const char* layout;
  int ranks;
  Collective collective;
  size_t words;  ///< of a block
  const char* algorithm = nullptr;
  bool shared = false;  ///< memory that peers map
  bool multicast = false;
  ibcoll_operator op = IBCOLL_SUM;
  const char* check = "data";
  std::map<std::string, std::string> settings = {};

  int slots() const { return collective == Collective::kAlltoall ? ranks : 1; }
};

/// One call on all ranks.
class Caller {
 public:
  Caller(const ApiRank& rank, const Path& path)
      : rank_(rank), path_(path), me_(ibcoll_rank(rank.context)) {
    const size_t ranks = static_cast<size_t>(path.ranks);
    send_ = memory(ranks);
    recv_ = memory(ranks);
    for (size_t to = 0; to < ranks; ++to) {
      for (size_t i = 0; i < path.words; ++i)
        send_[to * path.words + i] = word(me_, static_cast<int>(to), i);
    }
    for (size_t i = 0; i < path.words && me_ == 0; ++i) recv_[i] = word(0, 99, i);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  ibcoll_status run() {
    ibcoll_group* const world = ibcoll_world(rank_.context);
    ibcoll_options options = IBCOLL_OPTIONS_INIT;
    options.algorithm = path_.algorithm;
    const size_t bytes = path_.words * sizeof(uint64_t);
    switch (path_.collective) {
      case Collective::kAlltoall:
        return ibcoll_alltoall(world, send_, recv_, bytes, &options);
      case Collective::kAllgather:
        return ibcoll_allgather(world, send_, recv_, bytes, &options);
      case Collective::kGather:
        return ibcoll_gather(world, send_, recv_, bytes, 0, &options);
      case Collective::kScatter:
        return ibcoll_scatter(world, send_, recv_, bytes, 0, &options);
      case Collective::kBcast:
        return path_.multicast ? multicast(bytes) : ibcoll_bcast(world, recv_, bytes, 0, &options);
      case Collective::kAllreduce:
        return ibcoll_allreduce(world, send_, recv_, path_.words, IBCOLL_UINT64, path_.op,
                                &options);
      case Collective::kReduce:
        return ibcoll_reduce(world, send_, recv_, path_.words, IBCOLL_UINT64, path_.op, 0,
                             &options);
      case Collective::kReduceScatterBlock:
        return ibcoll_reduce_scatter_block(world, send_, recv_, path_.words, IBCOLL_UINT64,
                                           path_.op, &options);
      default:
        return ibcoll_scan(world, send_, recv_, path_.words, IBCOLL_UINT64, path_.op, &options);
    }
  }

  /// Of a minimum, which a flipped bit need not change.
  bool is_least() const {
    for (size_t i = 0; i < path_.words; ++i) {
      uint64_t least = UINT64_MAX;
      for (int from = 0; from < path_.ranks; ++from) least = std::min(least, word(from, 0, i));
      if (recv_[i] != least) return false;
    }
    return true;
  }

 private:
  uint64_t* memory(size_t slots) const {
    const size_t bytes = slots * path_.words * sizeof(uint64_t);
    void* memory = nullptr;
    if (path_.shared)
      rank_.good(ibcoll_alloc(rank_.context, bytes, &memory), "memory");
    else
      memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return static_cast<uint64_t*>(memory);
  }
  ibcoll_status multicast(size_t bytes) {
    if (me_ == 0) {
      ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
      options.acknowledged = 1;
      const uint64_t others = (uint64_t{1} << path_.ranks) - 2;
      return ibcoll_multicast(rank_.context, &others, 1, send_, bytes, &options, nullptr);
    }
    const ibcoll_message* message = nullptr;
    const ibcoll_status status = ibcoll_multicast_receive(rank_.context, -1, &message);
    return status != IBCOLL_OK ? status : ibcoll_message_free(rank_.context, message);
  }

  const ApiRank& rank_;
  const Path& path_;
  const int me_;
  uint64_t *send_, *recv_;
};

class FlippedBits : public ::testing::TestWithParam<Path> {
 protected:
  /// What the ranks say, a line each.
  static std::vector<std::string> run_once(int rank, int64_t at, uint64_t chance) {
    const Path& path = GetParam();
    Flips& all = flips();
    all.rank = rank;
    all.at = at;
    all.chance = chance;
    all.done = 0;
    for (auto& moved : all.moved) moved = 0;
    int status = 0;
    const std::string said = launched(
        path.layout, path.ranks,
        [&](const ApiRank& one) {
          alarm(120);
          Caller caller(one, path);
          ibcoll_group* const world = ibcoll_world(one.context);
          if (!one.good(ibcoll_barrier(world, nullptr), "barrier")) return;
          armed_rank = ibcoll_rank(one.context);
          ibcoll_status ended = caller.run();
          armed_rank = -1;
          if (ended == IBCOLL_OK && path.op == IBCOLL_MIN && !caller.is_least())
            one.complain("the result is wrong, and nobody says so");
          // Who has right data learns of the others' by its next call.
          for (int calls = 0; ended == IBCOLL_OK && calls < 2; ++calls)
            ended = ibcoll_barrier(world, nullptr);
          if (ended != IBCOLL_OK) one.complain(ibcoll_last_error());
        },
        &status);
    std::vector<std::string> lines;
    std::istringstream text(said);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  static void flip(int runs) {
    const Path& path = GetParam();
    std::map<std::string, std::string> settings = path.settings;
    settings["IBCOLL_CHECK"] = path.check;
    settings["IBCOLL_TRANSPORT"] = "auto";
    settings["IBCOLL_LOG_LEVEL"] = "off";
    const JobSettings in_force(settings);
    ASSERT_THAT(run_once(-1, 0, 0), ::testing::IsEmpty()) << "without a flipped bit";
    std::vector<int64_t> moved(flips().moved, flips().moved + path.ranks);
    const int64_t sum = std::accumulate(moved.begin(), moved.end(), int64_t{0});
    ASSERT_GT(sum, 0) << "nothing that this test knows was moved";
    std::mt19937_64 random(1);
    const std::string call = path.multicast ? std::string("multicast 1 of rank 0 (")
                                            : fmt::format("{} (", to_string(path.collective));
    for (int run = 0, missed = 0; run < runs;) {
      int64_t which = static_cast<int64_t>(random() % static_cast<uint64_t>(sum));
      int rank = 0;
      for (; which >= moved[rank]; ++rank) which -= moved[rank];
      const std::vector<std::string> lines = run_once(rank, which, random());
      // Ranks may get the same data in other pieces the next time.
      const bool may_be_right = flips().done == 0 || path.op == IBCOLL_MIN;
      if (may_be_right && lines.empty() && ++missed <= 4 * runs) continue;
      ++run;
      SCOPED_TRACE(fmt::format("run {}: piece {} that rank {} moves", run, which, rank));
      ASSERT_EQ(flips().done, 1);
      ASSERT_EQ(lines.size(), static_cast<size_t>(path.ranks))
          << fmt::format("{}", fmt::join(lines, "\n"));
      for (const std::string& line : lines) {
        ASSERT_THAT(line, HasSubstr(call));
        ASSERT_THAT(line, HasSubstr(path.algorithm != nullptr ? path.algorithm : ""));
        ASSERT_THAT(line, ::testing::ContainsRegex("rank [0-9]"));
        ASSERT_THAT(line, HasSubstr(": block "));
        ASSERT_THAT(line, HasSubstr("IBCOLL_CHECK"));
      }
    }
  }
};

TEST_P(FlippedBits, AreNamed) { flip(8); }

class FlippedBitsFull : public FlippedBits {};
TEST_P(FlippedBitsFull, AreNamedInAThousandOfAThousandRuns) { flip(1000); }

const Path kPaths[] = {
    {"Line", "3", 3, Collective::kAlltoall, 4},
    {"Ring", "3", 3, Collective::kAlltoall, 1024, "linear"},
    {"Pull", "3", 3, Collective::kAlltoall, 65536, "linear"},
    {"PullOfShared", "2", 2, Collective::kAlltoall, 65536, nullptr, true},
    {"Put", "2,2", 4, Collective::kAlltoall, 16384, "ring"},
    {"Eager", "2,2", 4, Collective::kAlltoall, 32, "ring"},
    {"Aggregated", "2,2,2", 6, Collective::kAlltoall, 256, "aggregate"},
    {"Bruck", "5", 5, Collective::kAlltoall, 64, "bruck"},
    {"RelayedRing", "2,1,2", 5, Collective::kAllgather, 4096, "ring"},
    {"TwoLevelRing", "2,2", 4, Collective::kAllgather, 8192, "two_level_ring"},
    {"Gathered", "2,2", 4, Collective::kGather, 2048, "binomial"},
    {"Scattered", "2,2", 4, Collective::kScatter, 2048, "binomial"},
    {"Chain", "2,2", 4, Collective::kBcast, 32768, "chain"},
    {"Sum", "3", 3, Collective::kAllreduce, 8192, "ring"},
    {"SumBetweenServers", "2,2", 4, Collective::kAllreduce, 8192},
    {"SumToOne", "2,2", 4, Collective::kReduce, 4096, "binomial"},
    {"SumInParts", "3", 3, Collective::kReduceScatterBlock, 2048},
    {"Prefix", "3", 3, Collective::kScan, 2048},
    {"Least", "3", 3, Collective::kAllreduce, 8192, "ring", false, false, IBCOLL_MIN},
    {"ShortMulticast", "2,2", 4, Collective::kBcast, 100, nullptr, false, true},
    {"LongMulticast", "2,2", 4, Collective::kBcast, 65536, nullptr, false, true},
    {"LateRing", "3", 3, Collective::kAlltoall, 1024, "linear", false, false, IBCOLL_SUM, "late"},
    {"LateSum", "2,2", 4, Collective::kAllreduce, 1024, nullptr, false, false, IBCOLL_SUM, "late"},
};
INSTANTIATE_TEST_SUITE_P(Paths, FlippedBits, ::testing::ValuesIn(kPaths), testing::named);
INSTANTIATE_TEST_SUITE_P(Paths, FlippedBitsFull, ::testing::ValuesIn(kPaths), testing::named);

}  // namespace
}  // namespace ibcoll
