// What ib_info --job says, beside what jobs take. A program of its own, for ranks that are forked
// from one that has run other tests write to the memory that these have left.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"
#include "engine/schedule/layout.h"
#include "studies/measure/process_memory.h"
#include "tests/command.h"
#include "tests/job.h"
#include "tests/launched.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

/// A job of emulated servers that makes alltoalls.
struct Alltoalls {
  std::string layout, algorithm;
  size_t block_bytes = 64;
  int calls = 1;

  /// The same for ib_info.
  nlohmann::json reckoned() const {
    const auto output = testing_tools::run_command(
        fmt::format("{}/ib_info --job {} --transport loopback --calls alltoall:{}:{} --json -",
                    testing_tools::bin_dir(), layout, block_bytes, algorithm));
    EXPECT_EQ(output.status, 0);
    return nlohmann::json::parse(output.out);
  }

  /// Every rank looks before it joins (with no context) and after its calls.
  void run(const std::function<void(Bootstrap&, Context*)>& look) const {
    const Shape shape = parse_layout(layout).value();
    testing::Complaints complaints(shape.ranks());
    const Result<int> status = launch_processes(quiet(shape.ranks()), [&](Bootstrap& bootstrap) {
      const Status done = run_rank(bootstrap, shape, look);
      if (!done) complaints.add(bootstrap.rank(), done.error().message);
      return done ? 0 : 1;
    });
    EXPECT_TRUE(status.has_value());
    EXPECT_EQ(complaints.all(), "");
  }

 private:
  Status run_rank(Bootstrap& bootstrap, const Shape& shape,
                  const std::function<void(Bootstrap&, Context*)>& look) const {
    std::vector<std::byte> send(static_cast<size_t>(shape.ranks()) * block_bytes, std::byte{1}),
        recv(send.size(), std::byte{2});
    IBCOLL_TRY(bootstrap.barrier());
    look(bootstrap, nullptr);
    IBCOLL_TRY(bootstrap.barrier());
    ContextOptions options;
    options.shape = shape;
    options.transport = "loopback";
    options.deadline_ns = 120'000'000'000;
    IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
    CallArguments arguments;
    arguments.collective = Collective::kAlltoall;
    arguments.options.algorithm = algorithm;
    arguments.send = send.data();
    arguments.recv = recv.data();
    arguments.block_bytes = block_bytes;
    for (int i = 0; i < calls; ++i) {
      Call call(context->world());
      IBCOLL_TRY(call.prepare(arguments));
      IBCOLL_TRY(call.start());
      IBCOLL_TRY(call.wait());
    }
    IBCOLL_TRY(bootstrap.barrier());
    look(bootstrap, context.get());
    IBCOLL_TRY(bootstrap.barrier());
    return context->close();
  }
};

TEST(JobMemory, ConnectionsAreThoseThatTheCallsMake) {
  for (const char* algorithm : {"two_level_ring", "aggregate", "linear"}) {
    for (const size_t bytes : {size_t{64}, size_t{64} << 10}) {
      const Alltoalls job{.layout = "3x3", .algorithm = algorithm, .block_bytes = bytes};
      InSharedMemory<std::atomic<uint64_t>> all;
      job.run([&](Bootstrap&, Context* context) {
        if (context != nullptr) *all += context->job().network()->counters().queue_pairs;
      });
      EXPECT_EQ(job.reckoned()["queue_pairs"].get<uint64_t>() * 9, all->load())
          << algorithm << " " << bytes;
    }
  }
}

/// In the mean of all ranks: of pages that several of them map, the kernel tells each a part that
/// depends on which of them happened to touch the neighbouring pages. So many calls that all lines
/// of the rings have been used.
TEST(JobMemory, ComesToWhatAJobTakes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  for (const char* algorithm : {"two_level_ring", "aggregate"}) {
    const Alltoalls job{.layout = "4x17", .algorithm = algorithm, .calls = 70};
    InSharedMemory<std::atomic<int64_t>> grown;
    job.run([&](Bootstrap&, Context* context) {
      *grown += context != nullptr ? proportional_bytes() : -proportional_bytes();
    });
    const nlohmann::json reckoned = job.reckoned();
    const auto measured = static_cast<double>(grown->load()) / reckoned["ranks"].get<double>();
    EXPECT_NEAR(reckoned["total_bytes"].get<double>() / measured, 1, 0.25)
        << algorithm << ": " << reckoned << " measured " << measured;
  }
}

}  // namespace
}  // namespace ibcoll
