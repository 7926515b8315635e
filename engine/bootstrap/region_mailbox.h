#pragma once
/// How the memory of a shared region gets from the rank that makes it to its peers.

#include <array>
#include <cstdint>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// How it went, for others to know.
struct RegionOutcome {
  int32_t code = 0;
  uint64_t ticket = 0;  ///< where threads get the mapping
  char text[240] = {};
};
RegionOutcome to_outcome(const Status& status);
Status to_status(const RegionOutcome& outcome);

/// Where a rank's mailbox is: the name of its socket.
using MailboxName = std::array<uint64_t, 2>;

/// A socket with a name nobody can guess, which a peer sends a file descriptor to.
class RegionMailbox {
 public:
  Status open();
  const MailboxName& name() const { return name_; }

  /// Sends an outcome and, if it is good, a descriptor.
  Status send(Bootstrap& bootstrap, const MailboxName& to, RegionOutcome outcome, int fd) const;
  /// Waits for what send() sends, but not for a job that has failed.
  Result<UniqueFd> receive(Bootstrap& bootstrap) const;

 private:
  UniqueFd socket_;
  MailboxName name_{};
};

}  // namespace ibcoll
