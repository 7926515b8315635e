#include "tests/job.h"

#include <sys/mman.h>

#include <cstring>

#include "engine/bootstrap/launch.h"

namespace ibcoll::testing {

Complaints::Complaints(int ranks) : ranks_(ranks) {
  text_ = static_cast<char*>(
      mmap(nullptr, ranks * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

Complaints::~Complaints() { munmap(text_, ranks_ * kBytes); }

void Complaints::add(int rank, const std::string& text) {
  char* place = text_ + rank * kBytes;
  if (place[0] == 0) std::strncpy(place, text.c_str(), kBytes - 1);
}

std::string Complaints::all() const {
  std::string result;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!of(rank).empty()) result += "rank " + std::to_string(rank) + ": " + of(rank) + "\n";
  }
  return result;
}

JobOptions job_of(const std::vector<int>& ranks_of_server, Placement placement) {
  JobOptions job;
  job.shape = Shape::from_layout(ranks_of_server, placement).value();
  return job;
}

std::string run_job(const JobOptions& options, const std::function<void(const RankView&)>& body,
                    int* status) {
  const int ranks = options.shape.ranks();
  Complaints complaints(ranks);
  const RankMain main = [&](Bootstrap& bootstrap) {
    ContextOptions context_options = options.context;
    context_options.shape = options.shape;
    auto context = Context::create(bootstrap, context_options);
    if (!context) {
      complaints.add(bootstrap.rank(), "no context: " + context.error().message);
      return 1;
    }
    body({**context, complaints});
    if (const Status closed = (*context)->close(); !closed) {
      complaints.add(bootstrap.rank(), "close: " + closed.error().message);
    }
    return 0;
  };
  LaunchOptions launch;
  launch.ranks = ranks;
  // Busy hosts stand still for seconds, and what survivors say matters here.
  launch.grace_ns = 30'000'000'000;
  launch.on_failure = [](const Failure&) {};
  const Result<int> result =
      options.threads ? launch_threads(ranks, main) : launch_processes(launch, main);
  if (!result) return "launch: " + result.error().message;
  if (status != nullptr) {
    *status = *result;
  } else if (*result != 0 && complaints.all().empty()) {
    return "a rank returned " + std::to_string(*result);
  }
  return complaints.all();
}

}  // namespace ibcoll::testing
