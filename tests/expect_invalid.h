#pragma once
/// Calls of the C interface that must be refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ibcoll/ibcoll.h"

namespace ibcoll::testing {

/// Expects that a call just made was refused, with an error that holds this text.
inline void expect_invalid(ibcoll_status status, const std::string& text) {
  EXPECT_EQ(status, IBCOLL_ERR_INVALID);
  EXPECT_THAT(ibcoll_last_error(), ::testing::HasSubstr(text));
}

}  // namespace ibcoll::testing
