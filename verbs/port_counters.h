#pragma once
/// What a port's driver counts of trouble that the hardware got over by itself.

#include <cstdint>
#include <string>

#include "verbs/device.h"

namespace ibcoll::verbs {

/// Counters of a port in sysfs. They count all traffic of the port, also of other jobs; 0 where the
/// driver has none.
class PortCounters {
 public:
  struct Values {
    uint64_t rnr = 0;      ///< a receiver had no receive posted
    uint64_t retries = 0;  ///< packets were sent again for want of an acknowledgement
  };

  /// Counts from now on.
  explicit PortCounters(const PortInfo& port);
  Values since_start() const;

 private:
  Values read() const;

  std::string directory_;
  Values start_;
};

}  // namespace ibcoll::verbs
