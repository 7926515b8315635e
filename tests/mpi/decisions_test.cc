// The file of decisions from one run to the next (IBCOLL_LEARNED).

#include "integrations/mpi/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "integrations/mpi/size_class.h"

namespace {

using namespace ibcoll::mpi;
using ::testing::HasSubstr;

const MpiName kMpi = {"MPICH", "4.0.2"};

class Decisions : public ::testing::Test {
 protected:
  ~Decisions() override { std::filesystem::remove(file_); }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  /// Of what is expected to be right.
  std::vector<Decision> read(const MpiName& mpi = kMpi) const {
    auto found = read_decisions(file_, mpi);
    EXPECT_TRUE(found.has_value()) << found.error().message;
    return found ? *found : std::vector<Decision>{};
  }
  std::string error_of(const std::string& text) const {
    write(text);
    const auto found = read_decisions(file_, kMpi);
    return found ? "none" : found.error().message;
  }

  const std::string file_ = ::testing::TempDir() + "decisions" + std::to_string(getpid());
};

Decision decision(Function function, uint64_t bytes, Candidate kept) {
  Decision made;
  made.ranks = 4;
  made.servers = 2;
  made.function = function;
  made.size_class = static_cast<uint8_t>(size_class_of(bytes));
  made.kept = kept;
  made.found = {1500, 750};
  return made;
}

TEST_F(Decisions, WhatIsWrittenIsRead) {
  const std::vector<Decision> made = {
      decision(Function::kAlltoall, 64, Candidate::kMpi),
      decision(Function::kScatterv, 0, Candidate::kMpi),
      decision(Function::kBcast, uint64_t{1} << 40, Candidate::kEngine),
      decision(Function::kBarrier, 0, Candidate::kMpi)};
  ASSERT_TRUE(write_decisions(file_, kMpi, made));
  const std::vector<Decision> found = read();
  ASSERT_EQ(found.size(), made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(found[i].function, made[i].function);
    EXPECT_EQ(found[i].size_class, made[i].size_class);
    EXPECT_EQ(found[i].kept, made[i].kept);
    EXPECT_EQ(found[i].ranks, made[i].ranks);
    EXPECT_EQ(found[i].servers, made[i].servers);
    EXPECT_EQ(found[i].found, made[i].found);
    EXPECT_EQ(found[i].is_of_file, 1);
  }
}

TEST_F(Decisions, ALineSaysWhatWasDecided) {
  ASSERT_TRUE(write_decisions(file_, kMpi, {decision(Function::kAlltoall, 64, Candidate::kMpi)}));
  std::ifstream lines(file_);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, R"({"mpi":"MPICH","version":"4.0.2","function":"alltoall","ranks":4,"servers":2,)"
                  R"("from":64,"to":127,"choice":"mpi","engine_us":1.5,"mpi_us":0.75})");
  EXPECT_FALSE(std::getline(lines, line));
  ASSERT_TRUE(write_decisions(file_, kMpi, {decision(Function::kGatherv, 0, Candidate::kMpi)}));
  lines = std::ifstream(file_);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, R"({"mpi":"MPICH","version":"4.0.2","function":"gatherv","ranks":4,"servers":2,)"
                  R"("from":0,"choice":"mpi","engine_us":1.5,"mpi_us":0.75})");
}

TEST_F(Decisions, MayNameAnAlgorithmOfTheEngines) {
  Decision made = decision(Function::kAllreduce, 64, Candidate::kFirstOther);
  made.algorithm = {"rabenseifner"};
  made.found = {1500, 2000, 750};
  ASSERT_TRUE(write_decisions(file_, kMpi, {made}));
  std::ifstream lines(file_);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_THAT(line, HasSubstr(R"("choice":"engine","algorithm":"rabenseifner","engine_us":1.5,)"
                              R"("mpi_us":2.0,"algorithm_us":0.75})"));
  const std::vector<Decision> found = read();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kept, Candidate::kFirstOther);
  EXPECT_STREQ(found[0].algorithm.data(), "rabenseifner");
  EXPECT_EQ(found[0].found, made.found);
  EXPECT_THAT(decisions_text(found), HasSubstr("engine, rabenseifner (0.75 us)"));
}

TEST_F(Decisions, LinesOfOtherMpisDecideNothing) {
  ASSERT_TRUE(write_decisions(file_, kMpi, {decision(Function::kAlltoall, 64, Candidate::kMpi)}));
  EXPECT_EQ(read({"MPICH", "4.1"}).size(), 0u);
  EXPECT_EQ(read({"MVAPICH", "4.0.2"}).size(), 0u);
}

TEST_F(Decisions, LinesOfPeopleMaySpanManySizes) {
  const std::string head = R"({"mpi":"MPICH","version":"4.0.2","ranks":2,"function":)";
  write(head + R"("bcast","to":1023,"choice":"mpi"})" + "\n\n" + head +
        R"("bcast","from":64,"to":127,"choice":"engine"})" + "\n" + head +
        R"("allgather","choice":"mpi"})" + "\n");
  int by_mpi = 0, by_engine = 0, allgathers = 0;
  for (const Decision& each : read()) {
    EXPECT_EQ(each.servers, 1);
    if (each.function == Function::kAllgather) {
      ++allgathers;
      continue;
    }
    EXPECT_LE(sizes_of(each.size_class).high, 1023u);
    ++(each.kept == Candidate::kMpi ? by_mpi : by_engine);
    EXPECT_EQ(each.kept == Candidate::kEngine, each.size_class == size_class_of(64));
  }
  EXPECT_EQ(by_engine, 1);
  EXPECT_EQ(by_mpi, 9);
  EXPECT_EQ(allgathers, kSizeClasses - 1);
}

TEST_F(Decisions, ReductionsThatAreNotExactHaveLinesOfTheirOwn) {
  const std::string head =
      R"({"mpi":"MPICH","version":"4.0.2","ranks":2,"function":"scan","to":1,"choice":)";
  write(head + R"("mpi","exact":false})" + "\n" + head + R"("engine"})" + "\n");
  const std::vector<Decision> found = read();
  ASSERT_EQ(found.size(), 2u);
  for (const Decision& each : found) EXPECT_EQ(each.is_exact == 0, each.kept == Candidate::kMpi);
}

TEST_F(Decisions, WhatIsNoLineIsNamed) {
  const std::string good =
      R"({"mpi":"A","version":"1","function":"bcast","ranks":2,"choice":"mpi"})";
  EXPECT_EQ(error_of(good + "\n"), "none");
  EXPECT_THAT(error_of(good + "\n{\n"), HasSubstr(file_ + ":2: "));
  EXPECT_THAT(error_of("[]"), HasSubstr(":1: it is no object"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    line.replace(line.find(from), from.size(), to);
    return error_of(line);
  };
  EXPECT_THAT(with("\"ranks\":2", "\"rank\":2"), HasSubstr("unknown member 'rank'"));
  EXPECT_THAT(with("\"ranks\":2", "\"ranks\":1"), HasSubstr("1 ranks on 1 servers"));
  EXPECT_THAT(with("\"ranks\":2", "\"ranks\":2,\"servers\":3"), HasSubstr("2 ranks on 3 servers"));
  EXPECT_THAT(with("\"ranks\":2", "\"ranks\":-2"), HasSubstr("'ranks' is missing, or no number"));
  EXPECT_THAT(with("\"ranks\":2", "\"ranks\":2,\"exact\":false"),
              HasSubstr("'exact' is false, but bcast combines nothing"));
  EXPECT_THAT(with("bcast", "neighbor_alltoall"),
              HasSubstr("'neighbor_alltoall' is none of the functions"));
  EXPECT_EQ(with("bcast", "alltoallv"), "none");
  EXPECT_THAT(with("bcast\"", "gatherv\",\"to\":1023"),
              HasSubstr("gatherv is decided for all sizes: it takes neither 'from' nor 'to'"));
  EXPECT_THAT(with("\"mpi\"}", "\"both\"}"), HasSubstr("neither engine nor mpi"));
  EXPECT_THAT(with("\"ranks\":2", "\"ranks\":2,\"from\":65,\"to\":126"),
              HasSubstr("no class of sizes lies between 65 and 126"));
  EXPECT_THAT(with("\"ranks\":2", "\"ranks\":2,\"mpi_us\":-1"), HasSubstr("'mpi_us' is no time"));
  EXPECT_THAT(with("\"mpi\"}", "\"mpi\",\"algorithm\":\"chain\"}"),
              HasSubstr("'algorithm' is for calls of the engine's"));
  EXPECT_THAT(with("\"mpi\"}", "\"engine\",\"algorithm\":\"\"}"),
              HasSubstr("'algorithm' is '', the name of none"));
  EXPECT_EQ(with("\"mpi\"}", "\"engine\",\"algorithm\":\"chain\"}"), "none");
  std::filesystem::remove(file_);
  EXPECT_THAT(read_decisions(file_, kMpi).error().message, HasSubstr(file_));
}

TEST_F(Decisions, WhereCommunicatorsDifferTheOneWithMostCallsSays) {
  Decision first = decision(Function::kBcast, 64, Candidate::kMpi),
           second = decision(Function::kBcast, 64, Candidate::kEngine),
           third = decision(Function::kAlltoall, 64, Candidate::kMpi);
  first.calls = 10;
  second.calls = 1000;
  third.calls = 1;
  const std::vector<Decision> found = merged({first, second, third});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].function, Function::kAlltoall);
  EXPECT_EQ(found[1].kept, Candidate::kEngine);
}

TEST_F(Decisions, ClassesCoverAllSizesOnce) {
  uint64_t next = 0;
  for (int i = 0; i < kSizeClasses; ++i) {
    EXPECT_EQ(sizes_of(i).low, next);
    EXPECT_EQ(size_class_of(sizes_of(i).low), i);
    EXPECT_EQ(size_class_of(sizes_of(i).high), i);
    next = sizes_of(i).high + 1;
  }
  EXPECT_EQ(next, 0u);
}

TEST_F(Decisions, PeopleGetATable) {
  const std::string text = decisions_text({decision(Function::kAlltoall, 64, Candidate::kMpi)});
  EXPECT_THAT(text, HasSubstr("alltoall"));
  EXPECT_THAT(text, HasSubstr("64-127"));
  EXPECT_THAT(text, HasSubstr("1.50"));
  EXPECT_THAT(decisions_text({decision(Function::kGatherv, 0, Candidate::kMpi)}),
              ::testing::ContainsRegex("gatherv +all "));
  EXPECT_EQ(decisions_text({}), "");
}

}  // namespace
