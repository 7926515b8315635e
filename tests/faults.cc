#include "tests/faults.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

namespace ibcoll::testing {

SharedStage::SharedStage()
    : stage_(new (mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Stage{}) {}

SharedStage::~SharedStage() { munmap(stage_, sizeof(Stage)); }

std::string common(const std::string& error) {
  size_t begin = 0;
  for (const std::string_view before : {"not joined: ", "no context: ", "close: "}) {
    if (error.compare(begin, before.size(), before) == 0) begin += before.size();
  }
  return error.substr(begin, error.find("; ", begin) - begin);
}

std::map<Rank, std::string> errors_in(const std::string& complaints) {
  std::map<Rank, std::string> errors;
  for (size_t begin = 0; begin < complaints.size();) {
    const size_t end = complaints.find('\n', begin);
    const std::string line = complaints.substr(begin, end - begin);
    const size_t colon = line.find(": ");
    if (line.starts_with("rank ") && colon != std::string::npos)
      errors[std::stoi(line.substr(5, colon - 5))] = line.substr(colon + 2);
    begin = end == std::string::npos ? complaints.size() : end + 1;
  }
  return errors;
}

void expect_one_error(const Outcome& outcome, const std::vector<Rank>& survivors,
                      const ::testing::Matcher<std::string>& failure) {
  for (const Rank rank : survivors) {
    const auto found = outcome.errors.find(rank);
    ASSERT_NE(found, outcome.errors.end()) << "rank " << rank << " has no error\n" << outcome.all;
    EXPECT_EQ(common(found->second), common(outcome.errors.at(survivors.front()))) << outcome.all;
    EXPECT_THAT(common(found->second), failure);
    EXPECT_THAT(found->second,
                ::testing::AllOf(::testing::HasSubstr("alltoall"), ::testing::HasSubstr("step")));
  }
}

Disturber::Disturber(Stage& stage, int ranks, const Disturb& disturb) {
  std::fflush(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  for (int rank = 0; rank < ranks && !stage.ended;) {
    if (stage.calls[rank] >= 2) {
      ++rank;
    } else {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  if (!stage.ended && disturb) disturb(stage);
  _exit(0);
}

Disturber::~Disturber() { end(SIGKILL); }

void Disturber::end(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

Outcome run_disturbed(const JobOptions& job, const Body& body, const Disturb& disturb) {
  const SharedStage stage;
  Outcome outcome;
  {
    const Disturber disturber(*stage, job.shape.ranks(), disturb);
    outcome.all = run_job(
        job,
        [&](const RankView& rank) {
          stage->pids[rank.context.rank()] = getpid();
          body(rank, *stage);
        },
        &outcome.status);
  }
  outcome.errors = errors_in(outcome.all);
  // Ranks that ended without a word, by a signal or by the launcher, did not end right.
  if (outcome.all.empty() && outcome.status != 0)
    outcome.all = fmt::format("status {}", outcome.status);
  return outcome;
}

bool exchange(const RankView& rank, size_t block_bytes, uint32_t number,
              std::string_view algorithm) {
  Group& group = rank.context.world();
  const auto ranks = static_cast<size_t>(group.size());
  const Rank me = group.rank();
  std::vector<std::byte> send(ranks * block_bytes + 1), recv(ranks * block_bytes + 1);
  for (size_t i = 0; i < ranks * block_bytes; ++i)
    send[i] = pattern(me, static_cast<Rank>(i / block_bytes), i % block_bytes, number);
  CallArguments arguments;
  arguments.collective = Collective::kAlltoall;
  arguments.send = send.data();
  arguments.recv = recv.data();
  arguments.block_bytes = block_bytes;
  arguments.options.algorithm = algorithm;
  Call call(group);
  Status done = call.prepare(arguments);
  if (done) done = call.start();
  if (done) done = call.wait();
  if (!done) {
    rank.complain(done.error().message);
    return false;
  }
  for (size_t i = 0; i < ranks * block_bytes; ++i) {
    if (recv[i] != pattern(static_cast<Rank>(i / block_bytes), me, i % block_bytes, number)) {
      rank.complain(fmt::format("wrong data in a call with blocks of {} bytes", block_bytes));
      return false;
    }
  }
  return true;
}

Body exchanges(int calls, std::vector<size_t> block_bytes, std::string algorithm) {
  return [=](const RankView& rank, Stage& stage) {
    std::atomic<int>& finished = stage.calls[rank.context.rank()];
    for (int i = 0; i < calls; ++i) {
      std::this_thread::sleep_for(milliseconds(stage.late_ms[rank.context.rank()].exchange(0)));
      if (!exchange(rank, block_bytes[i % block_bytes.size()], i, algorithm)) return;
      ++finished;
    }
  };
}

uint32_t number_from_environment(const char* name, uint32_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(text));
}

}  // namespace ibcoll::testing
