#pragma once
/// One rank of three on a server, whose executor is the test's, and whose peers do what the test
/// tells them.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/execute/executor.h"
#include "engine/schedule/builder.h"
#include "tests/execute/slow_local.h"

namespace ibcoll {

/// Rank 0. Its calls go from `send_` to `recv_`.
class LoneRank : public ::testing::Test {
 protected:
  LoneRank(Collective collective, uint64_t block_bytes, size_t blocks, ExecutorOptions options = {})
      : builder_(collective, "test", group_.shape, 0, {}),
        send_(blocks * block_bytes),
        recv_(blocks * block_bytes),
        executor_(
            bootstrap_, local_, nullptr, bell_, [] { return std::nullopt; }, options) {
    group_.to_job = {0, 1, 2};
    binding_.block_bytes = block_bytes;
    binding_[Buffer::kSend].base = send_.data();
    binding_[Buffer::kRecv].base = recv_.data();
  }
  /// What was written.
  void post() {
    program_ = builder_.finish();
    executor_.enter(group_);
    ASSERT_TRUE(executor_.post(group_, *program_, binding_, completion_));
    progress();
  }
  void progress() {
    while (executor_.progress()) {
    }
  }

  GroupState group_{Shape::single_server(3)};
  ProgramBuilder builder_;
  SlowLocal local_;
  std::vector<std::byte> send_, recv_;
  Binding binding_;
  Completion completion_;
  std::shared_ptr<const RankProgram> program_;
  perf::LoneBootstrap bootstrap_{3};
  Bell bell_;
  Executor executor_;
};

}  // namespace ibcoll
