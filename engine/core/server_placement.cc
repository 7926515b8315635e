#include "engine/core/server_placement.h"

#include "engine/base/log.h"

namespace ibcoll {

Result<ServerPlacement> place_on_servers(Bootstrap& bootstrap, const std::optional<Shape>& layout,
                                         const std::vector<int>& machines,
                                         const FabricSetting& fabric) {
  ServerPlacement placement;
  if (layout) {
    if (layout->ranks() != bootstrap.size()) {
      return fail(ErrorCode::kInvalidArgument, "the layout has {} ranks, the job {}",
                  layout->ranks(), bootstrap.size());
    }
    placement.shape = std::make_unique<Shape>(*layout);
  } else {
    IBCOLL_ASSIGN(Shape by_machine, Shape::create(machines));
    placement.shape = std::make_unique<Shape>(std::move(by_machine));
  }
  Shape& shape = *placement.shape;
  IBCOLL_ASSIGN(placement.fabric_order,
                order_servers(bootstrap, fabric, layout.has_value(), shape));
  if (!placement.fabric_order.fabric.empty()) log().info("{}", placement.fabric_order.describe());
  const Rank me = bootstrap.rank();
  for (const Rank peer : shape.members(shape.server_of(me))) {
    if (machines[peer] != machines[me]) {
      return fail(ErrorCode::kInvalidArgument,
                  "ranks {} and {} can't be on one server: they run on different machines", me,
                  peer);
    }
  }
  return placement;
}

}  // namespace ibcoll
