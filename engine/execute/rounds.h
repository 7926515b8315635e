#pragma once
/// Rounds of progress: everything that a rank has under way is moved on as far as it goes.

#include <cstdint>
#include <vector>

#include "engine/execute/call_runner.h"
#include "engine/execute/calls_under_way.h"
#include "engine/execute/health.h"
#include "engine/execute/lane_services.h"
#include "engine/execute/served_runs.h"
#include "engine/sharing/bell.h"

namespace ibcoll {

class Rounds {
 public:
  /// All must outlive it.
  Rounds(LaneServices& services, CallsUnderWay& under_way, CallRunner& calls, ServedRuns& runs,
         Health& health)
      : services_(services), under_way_(under_way), calls_(calls), runs_(runs), health_(health) {}

  /// One round; true if something moved. The job ends where the thread does so inside.
  bool make();
  /// The last one before this rank sleeps: late peers hold up nothing more in it.
  bool make_before_sleep();
  /// On a single server, mails that no round looks at: where a wait takes long.
  void take_rare_mails() {
    if (services_.network == nullptr) services_.mailroom.take_local_mails();
  }
  /// Looks for reasons why these calls may never end. Mails that are taken meanwhile may make
  /// calls, and so add to what is under way.
  void look_after(const std::vector<PostedCall*>& calls) {
    take_rare_mails();
    health_.check_all(calls);
  }
  /// Whether anything on this rank needs rounds.
  bool are_needed() const {
    return !under_way_.started.empty() || services_.ends.busy() || runs_.are_busy();
  }
  /// Whether mails may make calls, and so rounds needed.
  bool listen() const { return runs_.are_there(); }
  /// Whether peers may need some while this rank has nothing under way, for their connections.
  bool help_peers() const {
    return services_.network != nullptr && services_.network->needs_polls();
  }
  /// Whether the bell rings for what arrives from now on.
  bool can_be_woken(Bell& bell) {
    return services_.network == nullptr || services_.network->wake_on_arrival(bell);
  }

 private:
  bool make_one();

  LaneServices& services_;
  CallsUnderWay& under_way_;
  CallRunner& calls_;
  ServedRuns& runs_;
  Health& health_;
  uint32_t idle_rounds_ = 0;  ///< in a row
};

}  // namespace ibcoll
