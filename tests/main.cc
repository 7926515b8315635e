// A program has the tests of a folder. Under the name of one of its files, as a link to it, it runs
// that file's.

#include <fnmatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace {

/// Whether a test is one of those that a filter names: patterns between colons, those behind a dash
/// left out.
bool is_named(const std::string& test, const std::string& filter) {
  const auto matches = [&](const std::string& patterns) {
    std::istringstream in(patterns);
    for (std::string pattern; std::getline(in, pattern, ':');)
      if (fnmatch(pattern.c_str(), test.c_str(), 0) == 0) return true;
    return false;
  };
  const size_t dash = filter.find('-');
  const std::string wanted = filter.substr(0, dash);
  return (wanted.empty() || matches(wanted)) &&
         (dash == std::string::npos || !matches(filter.substr(dash + 1)));
}

/// The filter that names the tests of one file among those that the filter in force names; nothing
/// where the file is no part of this program.
std::optional<std::string> filter_of(std::string_view file) {
  const std::string given = ::testing::GTEST_FLAG(filter);
  std::string names;
  bool known = false;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).stem() != file) continue;
      known = true;
      const std::string name = std::string(suite.name()) + "." + test.name();
      if (is_named(name, given)) names += name + ":";
    }
  }
  if (!known) return std::nullopt;
  return names.empty() ? "-*" : names;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string called = std::filesystem::path(argv[0]).filename();
  ::testing::InitGoogleMock(&argc, argv);
  if (called.ends_with("_test")) {
    const auto filter = filter_of(called);
    if (!filter) {
      std::fprintf(stderr, "%s: this program has no tests of that name: build it anew\n",
                   called.c_str());
      return 1;
    }
    ::testing::GTEST_FLAG(filter) = *filter;
  }
  return RUN_ALL_TESTS();
}
