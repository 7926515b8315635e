#pragma once
/// Jobs over real verbs in which something fails at a moment. Only where the network is the test
/// bed's: run by tests/softroce.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/faults.h"
#include "tests/verbs/lock_privilege.h"
#include "verbs/device.h"

namespace ibcoll::testing {

/// A test program that takes longer hangs.
inline constexpr unsigned kHangSeconds = 240;

/// Rank 0 runs a command before any rank makes its first call.
inline void disturb_first(const RankView& rank, Stage& stage, const char* command) {
  if (rank.context.rank() == 0) {
    std::ignore = std::system(command);
    stage.disturbed = true;
  }
  while (!stage.disturbed) std::this_thread::sleep_for(milliseconds(1));
}

inline void shell(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

inline JobOptions verbs_job(const std::vector<int>& layout,
                            Placement placement = Placement::kBlock) {
  JobOptions job = job_of(layout, placement);
  job.context.transport = "verbs";
  return job;
}

class VerbsFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (getenv("SOFTROCE_MACHINE") == nullptr)
      GTEST_SKIP() << "only in the Soft-RoCE machine (./run softroce): real ports are left alone";
    alarm(kHangSeconds);
  }
  void TearDown() override {
    alarm(0);
    for (const char* name : {"IBCOLL_RETRIES", "IBCOLL_ACK_TIMEOUT", "IBCOLL_PORT_DOWN"})
      unsetenv(name);
    if (getenv("SOFTROCE_MACHINE") == nullptr) return;
    std::ignore = std::system(
        "for i in 1 2 3 4; do tc qdisc del dev e$i root; tc -n sw qdisc del dev v$i root; "
        "ip -n sw link set v$i up; done "
        "2>/dev/null");
    // Ranks of the next test shall find every port up.
    const auto all_up = [] {
      const auto ports = verbs::list_ports({});
      return std::all_of(ports.begin(), ports.end(), [](const auto& port) { return port.active; });
    };
    for (int i = 0; i < 500 && !all_up(); ++i) std::this_thread::sleep_for(milliseconds(10));
  }
  /// Soft-RoCE counts every packet it is asked for again as a retry, until an acknowledgement comes
  /// (each 64 packets): six are soon used up then.
  static void lose(int percent) {
    setenv("IBCOLL_RETRIES", "7", 1);
    setenv("IBCOLL_ACK_TIMEOUT", "14", 1);  // 67 ms: what is lost is soon sent again
    for (int i = 1; i <= 4; ++i)
      shell(fmt::format("tc qdisc add dev e{} root netem loss {}%", i, percent));
  }
};

}  // namespace ibcoll::testing
