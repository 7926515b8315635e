#pragma once
/// Runs a function as the ranks of a job, as processes or as threads, and brings back what went
/// wrong in them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"

namespace ibcoll::testing {

/// What one rank has to say; the first complaint counts. In memory shared with the parent process.
class Complaints {
 public:
  explicit Complaints(int ranks);
  ~Complaints();
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  void add(int rank, const std::string& text);
  std::string of(int rank) const { return text_ + rank * kBytes; }
  /// One line each of those that have complained.
  std::string all() const;

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
JobOptions job_of(const std::vector<int>& ranks_of_server, Placement placement = Placement::kBlock);

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
std::string run_job(const JobOptions& options, const std::function<void(const RankView&)>& body,
                    int* status = nullptr);

/// A byte that tells where it came from: block (origin, target), place in it, and which call it
/// was. Inline, for tests ask for every byte that they send or expect.
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
