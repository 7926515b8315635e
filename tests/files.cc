#include "tests/files.h"

#include <gtest/gtest.h>

#include <utility>

#include "engine/base/input.h"

namespace ibcoll::testing_tools {

std::string content_of(const std::string& path) {
  Result<std::string> content = read_input(path);
  if (content) return *std::move(content);
  ADD_FAILURE() << content.error().message;
  return {};
}

}  // namespace ibcoll::testing_tools
