#pragma once
/// Whom a rank has to do with in a call, and how much that is: read off its program.

#include <cstdint>
#include <vector>

#include "engine/execute/call_memory.h"
#include "engine/schedule/program.h"

namespace ibcoll {

struct Partners {
  /// By rank of the job.
  std::vector<bool> connected;  ///< on other servers: data or mails go to them, or come from them
  std::vector<bool> mailed;     ///< those of them that are sent mails
  std::vector<bool> local;      ///< on the server: messages go to them, or come from them
  CallLoad call;
  uint64_t longest_mail = 0;   ///< with its header
  uint64_t longest_local = 0;  ///< of the messages inside the server
  bool gates = false;

  explicit Partners(int ranks)
      : connected(static_cast<size_t>(ranks)),
        mailed(static_cast<size_t>(ranks)),
        local(static_cast<size_t>(ranks)) {}
};

/// `block_bytes`: of equal blocks. `eager`: messages between servers carry their data at once.
Partners partners_of(const RankProgram& program, const Shape& shape, uint64_t block_bytes,
                     bool eager);

}  // namespace ibcoll
