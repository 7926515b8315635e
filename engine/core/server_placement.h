#pragma once
/// Which server each rank of a job is on, and which number that server has.

#include <memory>
#include <optional>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/core/fabric_order.h"
#include "engine/schedule/shape.h"

namespace ibcoll {

struct ServerPlacement {
  Shape shape;
  /// How its servers came by their numbers.
  FabricOrder fabric_order;
};

/// Which ranks of a job of `ranks` ranks make up the servers that a program or its user asks for;
/// nothing: those that run on one machine. `layout`, `placement`: the program's; null: what the
/// environment says counts. A placement that finds no servers to place ranks on is refused.
Result<std::optional<Shape>> emulated_servers(int ranks, const char* layout = nullptr,
                                              const char* placement = nullptr);

/// Collective over the job. `layout`: which ranks make up a server; none: those that run on one
/// machine. `machines`: each rank's. Servers are numbered as it suits the fabric, where that is
/// known.
Result<std::unique_ptr<ServerPlacement>> place_on_servers(Bootstrap& bootstrap,
                                                          const std::optional<Shape>& layout,
                                                          const std::vector<int>& machines,
                                                          const FabricSetting& fabric);

}  // namespace ibcoll
