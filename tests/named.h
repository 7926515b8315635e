#pragma once
/// Names for the instances of parametrized tests.

#include <gtest/gtest.h>

#include <string>

namespace ibcoll::testing {

/// By the `name` of each parameter, for INSTANTIATE_TEST_SUITE_P.
inline constexpr auto named = [](const auto& info) { return std::string(info.param.name); };

}  // namespace ibcoll::testing
