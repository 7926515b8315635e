// How busy a machine is with something else, by what the kernel counts.

#include "perf/compare/state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/json.h"

namespace ibcoll::compare {
namespace {

using ::testing::HasSubstr;

constexpr double kTicks = 100;

cpu_set_t processors(std::initializer_list<int> numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int number : numbers) CPU_SET(number, &set);
  return set;
}

//                       user nice system idle iowait irq softirq steal guest guest_nice
constexpr const char* kText =
    "cpu  9000 9000 9000 9000 9000 9000 9000 9000 9000 9000\n"
    "cpu0 100 200 300 400 500 600 700 800 50 60\n"
    "cpu1 1000 0 0 3000 0 0 0 0 0 0\n"
    "cpu10 7000 0 0 0 0 0 0 0 0 0\n"
    "intr 12 0 0\n";

TEST(ProcessorTimes, AreThoseOfTheProcessorsAsked) {
  const auto one = parse_processor_times(kText, processors({0}), kTicks);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_DOUBLE_EQ(one->all, 36);
  EXPECT_DOUBLE_EQ(one->busy, 19);  // neither idle nor waiting for a disk nor stolen
  EXPECT_DOUBLE_EQ(one->stolen, 8);
  const auto two = parse_processor_times(kText, processors({0, 1}), kTicks);
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_DOUBLE_EQ(two->all, 76);
  EXPECT_DOUBLE_EQ(two->busy, 29);
}

TEST(ProcessorTimes, ATextThatSaysNothingIsAnError) {
  for (const char* text : {"", "cpu0 0 0 0 0 0 0 0 0\n", "cpu0 1 2 3\n", "cpux 1 2 3 4 5 6 7 8\n"})
    EXPECT_FALSE(parse_processor_times(text, processors({0}), kTicks)) << text;
}

TEST(ProcessorTimes, OfThisMachineGrow) {
  const auto before = processor_times();
  ASSERT_TRUE(before) << before.error().message;
  const auto after = processor_times();
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_GE(after->all, before->all);
  EXPECT_GE(after->own, before->own);
}

TEST(State, OthersHaveWhatIsNotOnesOwn) {
  const Result<ProcessorTimes> begin = ProcessorTimes{1000, 500, 20, 30};
  const State state = state_between("during", begin, ProcessorTimes{1200, 650, 26, 140});
  ASSERT_TRUE(state.others && state.steal);
  EXPECT_DOUBLE_EQ(*state.others, 20);  // 150 busy seconds, of them 110 one's own, of 200
  EXPECT_DOUBLE_EQ(*state.steal, 3);
  // Ticks and nanoseconds do not quite agree.
  EXPECT_EQ(state_between("during", begin, ProcessorTimes{1200, 650, 20, 181}).others, 0);
  // Nor is all there was always more than its parts: the time of waiting for disks can shrink.
  EXPECT_EQ(state_between("during", begin, ProcessorTimes{1100, 601, 20, 30}).others, 100);
}

/// Burns so much processor time.
void burn(double seconds) {
  const clock_t end = clock() + static_cast<clock_t>(seconds * CLOCKS_PER_SEC);
  while (clock() < end) continue;
}

TEST(ProcessorTimes, RunningChildrenAndTheirsAreOnesOwn) {
  int done[2], go_on[2];
  ASSERT_EQ(pipe(done), 0);
  ASSERT_EQ(pipe(go_on), 0);
  const auto before = processor_times();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  constexpr double kSeconds = 0.2;
  char one = 0;
  if (child == 0) {
    close(go_on[1]);
    burn(kSeconds);
    if (fork() == 0) burn(kSeconds);  // both go on
    if (write(done[1], "d", 1) == 1 && read(go_on[0], &one, 1) == 0) wait(nullptr);
    _exit(0);
  }
  for (int i = 0; i < 2; ++i) ASSERT_EQ(read(done[0], &one, 1), 1);
  const auto after = processor_times();
  close(go_on[1]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  const auto ended = processor_times();
  for (const int end : {done[0], done[1], go_on[0]}) close(end);
  ASSERT_TRUE(before && after && ended);
  EXPECT_GE(after->own - before->own, 1.9 * kSeconds);
  // Nor are they counted twice.
  EXPECT_GE(ended->own, after->own - 0.1);
  EXPECT_LT(ended->own - before->own, 3.8 * kSeconds);
}

TEST(Parts, TheWorstIsWhereOthersOrTheHostHadMost) {
  Parts parts(ProcessorTimes{1000, 500, 20, 30});
  EXPECT_FALSE(parts.worst());
  parts.end("a", ProcessorTimes{1010, 506, 20, 35});  // 1 of 10
  parts.end("b", ProcessorTimes{1020, 516, 24, 44});  // 1 of 10, and 4 stolen
  parts.end("c", ProcessorTimes{1030, 525, 24, 50});  // 3 of 10
  ASSERT_TRUE(parts.worst());
  EXPECT_EQ(parts.worst()->of, "b");
  EXPECT_DOUBLE_EQ(parts.worst()->others, 10);
  EXPECT_DOUBLE_EQ(parts.worst()->steal, 40);
  parts.end("d", ProcessorTimes{1040, 535, 24, 55});  // 5 of 10
  EXPECT_EQ(parts.worst()->of, "d");
}

TEST(Parts, ShortOnesGoOn) {
  Parts parts(ProcessorTimes{1000, 500, 20, 30});
  parts.end("a", ProcessorTimes{1001, 501, 20, 30});
  EXPECT_FALSE(parts.worst());
  parts.end("b", ProcessorTimes{1002, 501, 20, 30});
  ASSERT_TRUE(parts.worst());
  EXPECT_EQ(parts.worst()->of, "b");
  EXPECT_DOUBLE_EQ(parts.worst()->others, 50);
}

TEST(State, IsUnknownWhereNothingIsCounted) {
  const Result<ProcessorTimes> some = ProcessorTimes{1000, 500, 20, 30};
  const Result<ProcessorTimes> none = fail(ErrorCode::kUnsupported, "none");
  for (const State& state :
       {state_between("before", none, some), state_between("before", some, none),
        state_between("before", some, some)}) {
    EXPECT_FALSE(state.others);
    EXPECT_FALSE(state.steal);
    EXPECT_THAT(why_not_to_judge(state, 100).value_or(""), HasSubstr("not known"));
  }
}

TEST(State, AboveTheLimitNothingIsJudged) {
  State state{"during", {}, 10.0, 3.0};
  EXPECT_EQ(why_not_to_judge(state, 10), std::nullopt);
  state.others = 10.1;
  EXPECT_EQ(
      why_not_to_judge(state, 10),
      "others had 10.1 % of the processor time during the comparison; at most 10 % is allowed");
  state.others = 0;
  state.steal = 12;
  EXPECT_EQ(
      why_not_to_judge(state, 10),
      "the host stole 12.0 % of the processor time during the comparison; at most 10 % is allowed");
}

TEST(State, SoItIsWhereOnePartIs) {
  State state{"during", {}, 1.0, 1.0};
  state.worst = Part{"bcast, 2 ranks, private memory", 12, 3};
  EXPECT_EQ(why_not_to_judge(state, 12), std::nullopt);
  EXPECT_EQ(why_not_to_judge(state, 10),
            "others had 12.0 % of the processor time during the comparison (bcast, 2 ranks, "
            "private memory); at most 10 % is allowed");
  state.worst->others = 0;
  state.worst->steal = 11;
  EXPECT_THAT(why_not_to_judge(state, 10).value_or(""), HasSubstr("the host stole 11.0 %"));
}

TEST(State, ALineSaysItsWorstPart) {
  const State state{"during", {}, 12.5, 0, Part{"scan, 8 ranks, private memory", 20, 1.5}};
  const auto parsed = parse_state(state_line(state));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(state_line(*parsed), state_line(state));
  EXPECT_THAT(state_text(*parsed),
              HasSubstr("; at worst others 20.0 %, steal 1.5 % (scan, 8 ranks, private memory)"));
  for (const char* worst :
       {"1", "{}", R"({"of":"scan"})", R"({"of":1,"others_percent":1,"steal_percent":1})",
        R"({"of":"scan","others_percent":101,"steal_percent":1})"})
    EXPECT_FALSE(parse_state(*parse_json(
        fmt::format(R"({{"when":"during","load_average":[1,2,3],"worst":{}}})", worst))))
        << worst;
}

TEST(State, ALineSaysItAll) {
  const State state{"after", {1.5, 2.25, 3}, 12.5, std::nullopt};
  const auto parsed = parse_state(state_line(state));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(state_line(*parsed), state_line(state));
  EXPECT_THAT(state_text(*parsed), HasSubstr("after: load average 1.50 2.25 3.00"));
  EXPECT_THAT(state_text(*parsed), HasSubstr("others 12.5 %, steal unknown"));
  for (const char* wrong :
       {R"({})", R"({"when":1,"load_average":[1,2,3]})", R"({"when":"after","load_average":[1,2]})",
        R"({"when":"after","load_average":[1,2,3],"steal_percent":"much"})",
        R"({"when":"after","load_average":[1,2,3],"steal_percent":-0.1})",
        R"({"when":"after","load_average":[1,2,3],"others_percent":100.1})"})
    EXPECT_FALSE(parse_state(*parse_json(wrong))) << wrong;
}

}  // namespace
}  // namespace ibcoll::compare
