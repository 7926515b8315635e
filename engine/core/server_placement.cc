#include "engine/core/server_placement.h"

#include "engine/base/config.h"
#include "engine/base/log.h"
#include "engine/schedule/layout.h"

namespace ibcoll {
namespace {

/// As the layout says, else by machines; servers in the order of their lowest ranks.
Result<Shape> shape_of_job(int ranks, const std::optional<Shape>& layout,
                           const std::vector<int>& machines) {
  if (!layout) return Shape::create(machines);
  if (layout->ranks() == ranks) return *layout;
  return fail(ErrorCode::kInvalidArgument, "the layout has {} ranks, the job {}", layout->ranks(),
              ranks);
}

}  // namespace

Result<std::optional<Shape>> emulated_servers(int ranks, const char* layout,
                                              const char* placement) {
  std::string servers_of = layout == nullptr ? "" : layout;
  std::optional<int64_t> servers;
  if (layout == nullptr) {
    IBCOLL_ASSIGN(servers_of, config_string("IBCOLL_LAYOUT"));
    IBCOLL_ASSIGN(const int64_t number, config_integer("IBCOLL_SERVERS"));
    if (number != 0) servers = number;
  }
  std::string name = placement == nullptr ? "" : placement;
  if (placement == nullptr) {
    IBCOLL_ASSIGN(name, config_choice("IBCOLL_PLACEMENT"));
  }
  IBCOLL_ASSIGN(const Placement placed, parse_placement(name));
  if (layout == nullptr && servers_of.empty() && !servers) {
    if (placed == Placement::kBlock) return std::nullopt;
    return fail(ErrorCode::kInvalidArgument,
                "{} {} places ranks on emulated servers, and there are none: give a layout "
                "(IBCOLL_LAYOUT) or a number of servers (IBCOLL_SERVERS)",
                placement == nullptr ? "IBCOLL_PLACEMENT" : "placement", name);
  }
  IBCOLL_ASSIGN(Shape shape, shape_from_options(servers_of, ranks, servers, placed));
  return shape;
}

Result<std::unique_ptr<ServerPlacement>> place_on_servers(Bootstrap& bootstrap,
                                                          const std::optional<Shape>& layout,
                                                          const std::vector<int>& machines,
                                                          const FabricSetting& fabric) {
  IBCOLL_ASSIGN(Shape shape, shape_of_job(bootstrap.size(), layout, machines));
  Result<FabricOrder> order = order_servers(bootstrap, fabric, layout.has_value(), shape);
  if (!order) return tl::unexpected<Error>(order.error());
  if (!order->fabric.empty()) log().info("{}", order->describe());
  const Rank me = bootstrap.rank();
  for (const Rank peer : shape.members(shape.server_of(me))) {
    if (machines[peer] != machines[me]) {
      return fail(ErrorCode::kInvalidArgument,
                  "ranks {} and {} can't be on one server: they run on different machines", me,
                  peer);
    }
  }
  return std::unique_ptr<ServerPlacement>(new ServerPlacement{std::move(shape), std::move(*order)});
}

}  // namespace ibcoll
