#pragma once
/// Runs a function as the ranks of a job, as processes or as threads, and brings back what went
/// wrong in them.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/bootstrap/launch.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"

namespace ibcoll::testing {

/// What one rank has to say; the first complaint counts. In memory shared with the parent process.
class Complaints {
 public:
  explicit Complaints(int ranks) : ranks_(ranks) {
    text_ = static_cast<char*>(
        mmap(nullptr, ranks * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Complaints() { munmap(text_, ranks_ * kBytes); }
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  void add(int rank, const std::string& text) {
    char* place = text_ + rank * kBytes;
    if (place[0] == 0) std::strncpy(place, text.c_str(), kBytes - 1);
  }
  std::string of(int rank) const { return text_ + rank * kBytes; }
  std::string all() const {
    std::string result;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!of(rank).empty()) result += "rank " + std::to_string(rank) + ": " + of(rank) + "\n";
    }
    return result;
  }

 private:
  static constexpr size_t kBytes = 2048;
  int ranks_;
  char* text_;
};

struct JobOptions {
  Shape shape = Shape::single_server(1);
  bool threads = false;
  ContextOptions context;
};

/// A job on servers of so many ranks each.
inline JobOptions job_of(const std::vector<int>& ranks_of_server,
                         Placement placement = Placement::kBlock) {
  JobOptions job;
  job.shape = Shape::from_layout(ranks_of_server, placement).value();
  return job;
}

/// One rank of a job: its context, and a place to complain.
struct RankView {
  Context& context;
  Complaints& complaints;

  void complain(const std::string& text) const { complaints.add(context.rank(), text); }
  /// Complains unless `status` is good; gives whether it is.
  template <class T>
  bool good(const Result<T>& status, const std::string& what) const {
    if (!status) complain(what + ": " + status.error().message);
    return status.has_value();
  }
};

/// Runs `body` on every rank, with contexts made and closed around it. The result holds every
/// rank's first complaint; `status`, if given, gets the launcher's.
inline std::string run_job(const JobOptions& options,
                           const std::function<void(const RankView&)>& body,
                           int* status = nullptr) {
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

/// A byte that tells where it came from: block (origin, target), place in it, and which call it
/// was.
inline std::byte pattern(Rank origin, Rank target, size_t offset, uint32_t call) {
  uint32_t x = static_cast<uint32_t>(origin) * 2654435761u ^
               static_cast<uint32_t>(target + 2) * 40503u ^
               static_cast<uint32_t>(offset) * 2246822519u ^ call * 3266489917u;
  x ^= x >> 15;
  x *= 2246822519u;
  return static_cast<std::byte>(x >> 24);
}
inline constexpr std::byte kPoison{0xa5};

}  // namespace ibcoll::testing
