#pragma once
/// What must hold for ranks that are processes and for ranks that are threads.

#include <gtest/gtest.h>

#include <string>

#include "tests/launched.h"

namespace ibcoll {

enum class Start { kProcesses, kThreads };

class BothStarts : public ::testing::TestWithParam<Start> {
 protected:
  static Result<int> launch(int ranks, const RankMain& main) {
    return GetParam() == Start::kProcesses ? launch_processes(quiet(ranks), main)
                                           : launch_threads(ranks, main);
  }
};

inline const auto kBothStarts = ::testing::Values(Start::kProcesses, Start::kThreads);
inline std::string name_of_start(const ::testing::TestParamInfo<Start>& info) {
  return info.param == Start::kProcesses ? "processes" : "threads";
}

}  // namespace ibcoll
