// ./run on machines that are not ready for it, pretended by commands of other content in front of
// PATH.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::HasSubstr;
using ::testing::Not;

/// A command that `./run` will find instead of the real one; the calls of all are listed in
/// calls().
void pretend(const std::string& command, const std::string& script) {
  const std::filesystem::path path = folder() / "bin" / command;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/bash\necho \"" + command + " $*\" >>" << folder() / "calls"
                      << "\n" + script + "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

std::vector<std::string> calls(const std::string& command) {
  std::vector<std::string> found;
  std::ifstream in(folder() / "calls");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(command + " ")) found.push_back(line);
  return found;
}

/// `./run build` where no package is there and apt-get does as told; nothing is really built.
Ran build_with(const std::string& apt_get) {
  std::filesystem::remove(folder() / "calls");
  pretend("apt-get", apt_get);
  pretend("dpkg-query", "echo not-installed");
  pretend("sudo", "exec \"$@\"");
  pretend("sleep", "");
  pretend("cmake", "");
  std::filesystem::create_directories(folder() / "tmp");
  return run_shell("LC_ALL=de_DE.UTF-8 TMPDIR=" + (folder() / "tmp").string() + " PATH=" +
                   (folder() / "bin").string() + ":$PATH " + source_dir() + "/run build");
}

/// Machines that update themselves when they start hold it for minutes.
TEST(RunScript, WaitsForTheLockOfAnotherPackageManager) {
  const std::string count = folder() / "refused";
  const Ran ran =
      build_with("n=$(cat " + count + " 2>/dev/null || echo 0)\n" + "[ $n -ge 2 ] && exit 0\n" +
                 "echo $((n + 1)) >" + count + "\n" +
                 "[ \"$LC_ALL\" = C ] && message='Could not get lock' || message=Sperre\n" +
                 "echo \"E: $message /var/lib/apt/lists/lock. It is held by process 4711\" >&2\n" +
                 "exit 100");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("waits for other package managers"));
  const std::vector<std::string> apt = calls("apt-get");
  ASSERT_EQ(apt.size(), 4u) << "two refusals, then both steps";
  EXPECT_THAT(apt[2], ::testing::EndsWith(" update"));
  EXPECT_THAT(apt[3], ::testing::AllOf(HasSubstr(" install "), HasSubstr(" ninja-build")));
  for (const std::string& call : apt) EXPECT_THAT(call, HasSubstr("DPkg::Lock::Timeout="));
  EXPECT_EQ(calls("sleep").size(), 2u);
  EXPECT_EQ(calls("cmake").size(), 2u);
}

TEST(RunScript, DoesNotWaitForWhatWillNotCome) {
  const Ran ran = build_with(
      "echo 'E: Unable to locate package ninja-build' >&2\n"
      "exit 100");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(calls("apt-get").size(), 1u);
  EXPECT_TRUE(calls("sleep").empty());
  EXPECT_TRUE(calls("cmake").empty());
  EXPECT_THAT(ran.err, ::testing::AllOf(HasSubstr("Unable to locate package"),
                                        HasSubstr("run: can't install ")));
  EXPECT_TRUE(std::filesystem::is_empty(folder() / "tmp")) << "files are left behind";
}

}  // namespace
}  // namespace ibcoll
