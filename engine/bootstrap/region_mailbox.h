#pragma once
/// How the memory of a shared region gets from the rank that makes it to its peers.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/error_record.h"

namespace ibcoll {

/// Where a rank's mailbox is: the name of its socket.
using MailboxName = std::array<uint64_t, 2>;

/// A socket with a name nobody can guess, which a peer sends a file descriptor to.
class RegionMailbox {
 public:
  Status open();
  const MailboxName& name() const { return name_; }

  /// Sends an outcome and, if it is good, the descriptor of the memory of a region, which goes by
  /// its number.
  Status send(Bootstrap& bootstrap, const MailboxName& to, int region, const Status& outcome,
              int fd) const;
  /// Waits for what send() sends of that region, but not for a job that has failed.
  Result<UniqueFd> receive(Bootstrap& bootstrap, int region);

 private:
  struct Mail {
    int32_t region = 0;
    ErrorRecord outcome;
  };
  struct Arrived {
    Mail mail;
    UniqueFd fd;
  };
  /// The next mail of one of us; nothing: none has come for a while.
  Result<std::optional<Arrived>> next();

  UniqueFd socket_;
  MailboxName name_{};
  std::vector<Arrived> early_;  ///< of regions that are to be received later: senders differ
};

}  // namespace ibcoll
