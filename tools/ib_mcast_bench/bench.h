#pragma once
/// Times multicasts to random sets on real ranks: what ib_mcast_bench does, without its command
/// line. Works through the public interface, as a program does.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "ibcoll/ibcoll.h"
#include "studies/measure/multicast_sets.h"

namespace ibcoll::tools {

struct McastSettings {
  measure::SetDraw draw;
  int masters = 1;      ///< ranks 0 .. masters - 1, which send at the same time
  int sets = 100;       ///< that each master sends to, at each size
  int warmup = 5;       ///< sets before those, which are not counted
  int window = 1;       ///< multicasts that a master has under way
  bool repeat = false;  ///< each set gets two messages in a row
  std::vector<std::string> algorithms;
  std::vector<int64_t> sizes;
  unsigned pieces = 0;
  bool check = false;       ///< every member compares every byte
  std::optional<int> slow;  ///< the rank that is stopped meanwhile
  bool bound = false;       ///< ask for the bound of each multicast's time

  int sends() const { return (warmup + sets) * (repeat ? 2 : 1); }
  int warmup_sends() const { return warmup * (repeat ? 2 : 1); }
};

/// Bytes of memory that all ranks take together for their messages.
int64_t memory_needed(const McastSettings& settings);

/// One multicast, as its master saw it.
struct McastSample {
  double us = 0;         ///< from the call until all members had acknowledged
  double master_us = 0;  ///< processor time of the call
  int64_t members = 0;
  int64_t second = 0;   ///< the set had got a message just before
  int64_t slow = 0;     ///< the stopped rank is a member
  int64_t stopped = 0;  ///< it ended while that rank stood still
  double bound_us = 0;  ///< that the library had told before; 0: it was not asked
};

/// What was measured at one size.
struct McastRow {
  std::string algorithm;
  int64_t bytes = 0;
  double members = 0;  ///< mean
  double min_us = 0, p50_us = 0, p90_us = 0, p99_us = 0, max_us = 0;
  double master_us = 0, master_p99_us = 0;
  std::optional<double> first_us, repeat_us;  ///< medians
  double multicasts_per_second = 0;           ///< of all masters together
  double messages_per_member = 0;
  std::optional<double> bytes_per_port;  ///< none where nothing passes a port
  int64_t busy = 0;                      ///< calls that were told to come again
  int64_t non_member_messages = 0;
  int64_t memory_bytes = 0;  ///< of the rank that had most
  int64_t queue_pairs_added = 0;
  bool checked = false;
  /// Those to sets without the stopped rank that ended while it stood still.
  std::optional<double> others_p50_us, others_max_us;
  std::optional<double> others_before_us;  ///< median of those before it was stopped
  int64_t others = 0;
  /// The same of the other masters, which send nothing to that rank.
  std::optional<double> other_masters_before_us, other_masters_p50_us, other_masters_max_us;
  int64_t other_masters = 0;
  /// Median of the bounds, and the part of the multicasts that took no longer than theirs.
  std::optional<double> bound_us, bound_kept;
};

/// Before anything is timed.
struct McastSetup {
  double us = 0;  ///< until each master has reached everybody
  int64_t queue_pairs = 0;
};

struct McastCallbacks {
  std::function<void(const McastSetup&)> on_setup;
  std::function<void(const McastRow&)> on_row;
  std::function<void(const std::string&)> on_progress;
};

/// Collective over all ranks of the context. Rank 0 calls the functions. A message that differs, or
/// comes to somebody who is no member, is an error.
Status run_mcast_bench(ibcoll_context* context, const McastSettings& settings,
                       const McastCallbacks& callbacks);

}  // namespace ibcoll::tools
