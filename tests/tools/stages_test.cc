// What `./run test` makes of its arguments, where every check is pretended and passes, and what it
// says of the cost of building.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The checks on standard output, what `./run` says on standard error.
Ran run_stages(const std::string& arguments) {
  return run_shell("cd " + source_dir() +
                   " && bash -euc '"
                   "say() { echo \"run: $*\" >&2; }\n"
                   "source tests/stages.sh\n"
                   "builds() { true; }\n"
                   "packages() { true; }\n"
                   "check() { echo \"check: $1\"; passed=$((passed + 1)); }\n"
                   "for name in build_and_test softroce_tests ucx_tests mpi_tests cross_tests; do\n"
                   "  eval \"$name() { check $name; }\"\n"
                   "done\n"
                   "SCRIPT_PACKAGES= PROGRAM_PACKAGES=\n"
                   "run_stages " +
                   arguments + "'");
}

TEST(Stages, EveryChangeGoesWithoutPackages) {
  const Ran every_change = run_stages("");
  EXPECT_EQ(every_change.status, 0) << every_change.err;
  EXPECT_THAT(every_change.out,
              AllOf(HasSubstr("check: install\n"), Not(HasSubstr("check: Debian packages\n"))));
  for (const char* arguments : {"full", "install", "quick install"}) {
    const Ran ran = run_stages(arguments);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out,
                AllOf(HasSubstr("check: install\n"), HasSubstr("check: Debian packages\n")));
  }
}

TEST(Stages, SayWhatBuildingCosts) {
  const std::string figures = file("figures.json",
                                   "{\n \"bench_s\": 220.4,\n \"everything_s\": 755.2,\n"
                                   " \"tests_share\": 0.398,\n \"library_bytes\": 2911064\n}\n");
  const std::string limits = file("limits.json",
                                  "{\n \"everything_s\": 1250,\n \"bench_s\": 240,\n"
                                  " \"tests_share\": 0.4,\n \"library_bytes\": 3000000\n}\n");
  const Ran line = run_shell("cd " + source_dir() +
                             " && bash -euc 'source tests/stages.sh; build_cost_on_record " +
                             figures + " " + limits + "'");
  EXPECT_EQ(line.err, "");
  EXPECT_EQ(line.out,
            "everything 755 s (limit 1250 s) of a core, of it tests 39.8 % (limit 40.0 %), "
            "./run bench 220 s (limit 240 s), libibcoll.so 2.91 MB (limit 3.00 MB)\n");
  const Ran after_stages = run_stages("quick");
  EXPECT_THAT(after_stages.err,
              ::testing::ContainsRegex("\nrun: build cost on record: everything [1-9][0-9]* s "
                                       "\\(limit [1-9][0-9]* s\\) of a core"));
}

/// What the stage build-cost complains of where that was measured, a line each.
std::string complaints(const std::string& found) {
  const Ran ran = run_shell("cd " + source_dir() +
                            "/tests/build_cost && python3 -B -c 'import main\n"
                            "print(\"\\n\".join(main.complaints(" +
                            found + ", {\"everything\": 100})))'");
  EXPECT_EQ(ran.status, 0) << ran.err;
  return ran.out;
}

TEST(BuildCost, NamesEachLimitThatIsPassed) {
  if (run_shell("python3 --version").status != 0) GTEST_SKIP() << "python3 is not installed";
  // The machine may be slow: the limits are for one on which the yardstick takes 5.73 s.
  const std::string slow = "{\"everything_s\": 5000, \"bench_s\": 1000, \"tests\": 1, ";
  EXPECT_EQ(complaints(slow + "\"tests_share\": 0.4, \"library_bytes\": 3000000, "
                              "\"everything\": 110, \"bench\": 41}"),
            "\n");
  EXPECT_EQ(complaints(slow + "\"tests_share\": 0.401, \"library_bytes\": 3000001, "
                              "\"everything\": 220, \"bench\": 42}"),
            "everything is 220, more than 10 % above the 100 of figures.json\n"
            "everything_s is 1260.6 on the machine of the limits, above the limit of 1250\n"
            "bench_s is 240.7 on the machine of the limits, above the limit of 240\n"
            "tests_share is 0.401, above the limit of 0.4\n"
            "library_bytes is 3000001, above the limit of 3000000\n");
}

}  // namespace
}  // namespace ibcoll
