#pragma once
/// The side of ib_mcast_bench that sends.

#include <deque>
#include <memory>
#include <vector>

#include "engine/base/result.h"
#include "ibcoll/ibcoll.h"
#include "tools/ib_mcast_bench/bench.h"

namespace ibcoll::tools {

/// The error of the last call that failed, in this namespace's form.
Status of_api(ibcoll_status status);

/// Stops a rank of this machine, and lets it go on three seconds later. At its end it goes on, too.
/// Or only knows that another master does so.
class Stopped {
 public:
  static constexpr int64_t kStandsNs = 3'000'000'000;
  Stopped() = default;
  ~Stopped() { resume(); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  /// `process`: 0 where another master does it.
  void stop(int process);
  /// Lets it go on if it is time.
  void look();
  void resume();
  bool stands() const { return since_ != 0; }

 private:
  int process_ = 0;
  int64_t since_ = 0;
};

/// Sends a phase's multicasts, as many at a time as the window says.
class McastMaster {
 public:
  /// `sets`: of this master, by number. `stop`: the process to stop meanwhile, where this rank is
  /// the one that does; else 0.
  McastMaster(ibcoll_context* context, const McastSettings& settings, int stop)
      : context_(context), settings_(settings), me_(ibcoll_rank(context)), stop_(stop) {}

  /// Returns when all members have acknowledged all of them.
  Status send_all(uint32_t phase, int64_t bytes, const std::string& algorithm,
                  const std::vector<std::vector<int>>& sets);
  /// A single one, waited for.
  Status send_one(uint64_t tag, int64_t bytes, const std::string& algorithm,
                  const std::vector<int>& members);

  /// Of the last phase, those of the warm-up left out, in the order of `send`.
  const std::vector<McastSample>& samples() const { return samples_; }
  int64_t busy() const { return busy_; }
  /// How long the sends that count took together.
  double took_us() const { return took_us_; }

 private:
  struct UnderWay {
    ibcoll_request* settings = nullptr;
    int send = 0;
    int64_t begin_ns = 0;
    std::vector<std::byte> data;
  };

  /// Waits for the other masters.
  Status meet();
  /// From now on the slow rank stands still, for all masters.
  Status stop_slow();
  /// Sends it if the library takes it now. False: it is busy.
  Result<bool> start(int send);
  Status finish(UnderWay& one, ibcoll_status ended);
  Status await_oldest();
  Status look_after_all();
  Status free_one(UnderWay& one);
  bool has_slow(const std::vector<int>& members) const;
  const std::vector<int>& members_of(int send) const {
    return (*sets_)[static_cast<size_t>(send / (settings_.repeat ? 2 : 1))];
  }
  std::vector<std::byte> buffer();

  ibcoll_context* context_;
  const McastSettings& settings_;
  int me_;
  int stop_;
  Stopped stopped_;
  uint32_t phase_ = 0, order_ = 0;
  int64_t bytes_ = 0;
  std::string algorithm_;
  const std::vector<std::vector<int>>* sets_ = nullptr;
  std::deque<UnderWay> under_way_;
  std::vector<std::vector<std::byte>> free_;  ///< buffers of this phase's size
  std::vector<int64_t> first_try_ns_;         ///< by send; 0: not tried
  std::vector<McastSample> samples_;
  int64_t busy_ = 0;
  int64_t counted_from_ns_ = 0;
  double took_us_ = 0;
};

}  // namespace ibcoll::tools
