#include "engine/schedule/layout.h"

#include "engine/base/units.h"

namespace ibcoll {

Result<Placement> parse_placement(std::string_view text) {
  if (text == "block") return Placement::kBlock;
  if (text == "cyclic") return Placement::kCyclic;
  return fail(ErrorCode::kInvalidArgument, "unknown placement '{}': one of block, cyclic", text);
}

Result<Shape> parse_layout(std::string_view text, Placement placement) {
  std::vector<int> ranks_of_server;
  int64_t ranks = 0;
  for (const std::string_view part : split(text, ',')) {
    const size_t times = part.find('x');
    if (part.empty() || part.find_first_not_of("0123456789x") != std::string_view::npos ||
        part.front() == 'x' || part.back() == 'x') {
      return fail(ErrorCode::kInvalidArgument,
                  "'{}' in layout '{}' is neither a server's number of ranks nor SERVERSxRANKS "
                  "like 24x8",
                  part, text);
    }
    int64_t count = 1;
    if (times != std::string_view::npos) {
      IBCOLL_ASSIGN(count, parse_integer(part.substr(0, times), 1, kMaxLayoutRanks,
                                         fmt::format("number of servers in layout '{}'", text)));
    }
    IBCOLL_ASSIGN(
        const int64_t size,
        parse_integer(part.substr(times == std::string_view::npos ? 0 : times + 1), 1,
                      kMaxLayoutRanks, fmt::format("ranks of a server in layout '{}'", text)));
    ranks += count * size;
    if (ranks > kMaxLayoutRanks) {
      return fail(ErrorCode::kInvalidArgument, "layout '{}' has more than {} ranks", text,
                  kMaxLayoutRanks);
    }
    ranks_of_server.insert(ranks_of_server.end(), count, static_cast<int>(size));
  }
  if (ranks_of_server.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "empty layout: write ranks of each server (3,1,2) or servers x ranks (24x8)");
  }
  return Shape::from_layout(ranks_of_server, placement);
}

Result<Shape> shape_from_options(std::string_view layout, std::optional<int64_t> ranks,
                                 std::optional<int64_t> servers, Placement placement) {
  if (ranks && (*ranks < 1 || *ranks > kMaxLayoutRanks)) {
    return fail(ErrorCode::kInvalidArgument, "{} ranks: must be 1 to {}", *ranks, kMaxLayoutRanks);
  }
  if (servers && *servers < 1) {
    return fail(ErrorCode::kInvalidArgument, "{} servers: must be at least 1", *servers);
  }
  if (!layout.empty()) {
    IBCOLL_ASSIGN(Shape shape, parse_layout(layout, placement));
    if (ranks && *ranks != shape.ranks()) {
      return fail(ErrorCode::kInvalidArgument, "layout '{}' has {} ranks, but {} were asked for",
                  layout, shape.ranks(), *ranks);
    }
    if (servers && *servers != shape.servers()) {
      return fail(ErrorCode::kInvalidArgument, "layout '{}' has {} servers, but {} were asked for",
                  layout, shape.servers(), *servers);
    }
    return shape;
  }
  if (!ranks) {
    return fail(ErrorCode::kInvalidArgument, "neither a layout nor a number of ranks is given");
  }
  const int64_t count = servers.value_or(1);
  if (count > *ranks) {
    return fail(ErrorCode::kInvalidArgument,
                "{} servers for {} ranks: every server needs at least one rank", count, *ranks);
  }
  std::vector<int> ranks_of_server;
  for (int64_t server = 0; server < count; ++server) {
    ranks_of_server.push_back(static_cast<int>(*ranks / count + (server < *ranks % count ? 1 : 0)));
  }
  return Shape::from_layout(ranks_of_server, placement);
}

}  // namespace ibcoll
