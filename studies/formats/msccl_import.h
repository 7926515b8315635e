#pragma once
/// From MSCCL's XML to programs of the engine's.

#include <optional>
#include <string>

#include "engine/schedule/json.h"
#include "studies/formats/msccl.h"

namespace ibcoll::formats {

struct ImportOptions {
  std::string name;  ///< of the algorithm; empty: the program's own
  Rank root = 0;     ///< of a broadcast, where the file does not say
  /// What the program does, where the file calls it "custom"; none: that is refused.
  std::optional<Collective> collective = {};
};

/// The programs of all ranks on that shape, verified.
///
/// What a step reads must be certain: of two accesses to one chunk of which one writes, one happens
/// before the other by the order of threadblocks, by what steps come after, or by messages. Then
/// every value that is written gets a slot of its own, so that data may land as soon as they are
/// sent and nothing is overwritten. Errors (kInput) name the step and say why.
Result<LoadedSchedule> import_msccl(const MscclProgram& program, const Shape& shape,
                                    const ImportOptions& options = {});

}  // namespace ibcoll::formats
