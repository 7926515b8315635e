// The IBCOLL_* variables and the log.

#include "engine/base/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "engine/base/json_lines.h"
#include "engine/base/log.h"
#include "engine/base/network_names.h"
#include "tests/files.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Sets a variable as long as it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

std::string warnings_of_check() {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(check_environment());
  return ::testing::internal::GetCapturedStderr();
}

TEST(Config, DefaultsHold) {
  EXPECT_TRUE(check_environment());
  EXPECT_EQ(config_duration("IBCOLL_LATE").value(), 10'000'000'000);
  EXPECT_EQ(config_duration("IBCOLL_DEADLINE").value(), 0);
  EXPECT_EQ(config_choice("IBCOLL_TRANSPORT").value(), "auto");
  EXPECT_EQ(config_string("IBCOLL_LAYOUT").value(), "");
}

TEST(Config, TheEnvironmentGoesFirst) {
  const Setting heap("IBCOLL_HEAP", "2G"), seed("IBCOLL_LOOPBACK_SEED", "17"),
      empty("IBCOLL_PLACEMENT", "");
  EXPECT_EQ(config_size("IBCOLL_HEAP").value(), int64_t{2} << 30);
  EXPECT_EQ(config_integer("IBCOLL_LOOPBACK_SEED").value(), 17);
  const Setting key("IBCOLL_PKEY", "0x8001");
  EXPECT_EQ(config_integer("IBCOLL_PKEY").value(), 0x8001);
  EXPECT_EQ(config_choice("IBCOLL_PLACEMENT").value(), "block");
  for (const ConfigEntry& entry : current_config()) {
    EXPECT_EQ(entry.set, entry.row->name == "IBCOLL_HEAP" || entry.row->name == "IBCOLL_PKEY" ||
                             entry.row->name == "IBCOLL_LOOPBACK_SEED")
        << entry.row->name;
  }
}

TEST(Config, BadValuesNameVariableValueAndWhatIsAllowed) {
  const Setting transport("IBCOLL_TRANSPORT", "smoke"), heap("IBCOLL_HEAP", "-1"),
      servers("IBCOLL_SERVERS", "2000000"), late("IBCOLL_LATE", "soon");
  const std::string kinds(fmt::format("{}", fmt::join(network_names(), ", ")));
  EXPECT_EQ(config_choice("IBCOLL_TRANSPORT").error().message,
            "IBCOLL_TRANSPORT='smoke' is not allowed: it takes one of auto, shm, " + kinds);
  EXPECT_EQ(config_size("IBCOLL_HEAP").error().message,
            "IBCOLL_HEAP='-1' is not allowed: it takes a size, 0 to 16T");
  EXPECT_EQ(config_integer("IBCOLL_SERVERS").error().message,
            "IBCOLL_SERVERS='2000000' is not allowed: it takes a whole number, 0 to 1048576");
  for (const char* text : {"0x", "0x1ffff", "0xg", "0x-1", "0x80010000000000001"}) {
    const Setting key("IBCOLL_PKEY", text);
    EXPECT_FALSE(config_integer("IBCOLL_PKEY")) << text;
  }
  const Status all = check_environment();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, ErrorCode::kInvalidArgument);
  for (const char* text : {"'smoke'", "'-1'", "'2000000'", "'soon'"}) {
    EXPECT_THAT(all.error().message, HasSubstr(text));
  }
}

TEST(Config, UnknownVariablesAreWarnedAboutWithTheNearestName) {
  const Setting misspelt("IBCOLL_TRANSPROT", "shm");
  EXPECT_THAT(warnings_of_check(),
              HasSubstr("IBCOLL_TRANSPROT in the environment has no effect (did "
                        "you mean IBCOLL_TRANSPORT?)"));
  const Setting strange("IBCOLL_QWXZKJ", "1");
  EXPECT_THAT(warnings_of_check(), HasSubstr("IBCOLL_QWXZKJ in the environment has no effect\n"));
  set_log_rank(1);  // rank 0 has told it
  EXPECT_EQ(warnings_of_check(), "");
  set_log_rank(-1);
}

TEST(Config, TheTableIsSound) {
  std::set<std::string_view> names;
  for (const Variable& row : kVariables) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice";
    EXPECT_EQ(row.name.substr(0, 7), "IBCOLL_");
    EXPECT_EQ(row.choices.empty(), row.type != VariableType::kChoice) << row.name;
    EXPECT_THAT(std::string(row.help), Not(HasSubstr("|"))) << row.name;
  }
  std::vector<VariableGroup> sections, groups;
  for (const VariableSection& section : kVariableSections) sections.push_back(section.group);
  for (const Variable& row : kVariables) {
    if (groups.empty() || groups.back() != row.group) groups.push_back(row.group);
  }
  EXPECT_EQ(groups, sections) << "rows of a group stand together, in the order of the sections";
}

/// UPDATE_DOCS=1 writes the file instead.
TEST(Config, TheDocumentationIsCurrent) {
  const std::string path = testing_tools::source_dir() + "/docs/environment.md";
  if (std::getenv("UPDATE_DOCS") != nullptr) {
    ASSERT_TRUE(write_file(path, environment_markdown()));
  }
  EXPECT_EQ(testing_tools::content_of(path), environment_markdown())
      << "make it anew with ./run docs";
}

TEST(Log, LinesNameTheRankOfTheirThread) {
  ::testing::internal::CaptureStderr();
  log().warn("early");
  std::thread([] {
    set_log_rank(3);
    log().error("late by {} s", 10);
    log().debug("not shown");
  }).join();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "ibcoll: warning: early\nibcoll[3]: error: late by 10 s\n");
}

}  // namespace
}  // namespace ibcoll
