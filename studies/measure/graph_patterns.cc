#include "studies/measure/graph_patterns.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "engine/base/input.h"
#include "engine/base/units.h"

namespace ibcoll::measure {
namespace {

using Edges = std::vector<Graph::Edge>;

constexpr size_t kMostEdges = size_t{1} << 26;

template <class... Args>
tl::unexpected<Error> bad(std::string_view pattern, fmt::format_string<Args...> format,
                          Args&&... args) {
  return fail(ErrorCode::kInvalidArgument, "graph '{}': {}", pattern,
              fmt::format(format, std::forward<Args>(args)...));
}

Result<Edges> ring(std::string_view k, int ranks) {
  const int64_t most = static_cast<int64_t>(kMostEdges) / (2 * ranks);
  IBCOLL_ASSIGN(const int64_t reach, parse_integer(k, 0, most, "the K of graph ring:K"));
  Edges edges;
  for (Rank rank = 0; rank < ranks; ++rank) {
    for (int64_t i = 1; i <= reach; ++i) {
      edges.push_back({rank, static_cast<Rank>((rank + i) % ranks)});
      edges.push_back({rank, static_cast<Rank>(((rank - i) % ranks + ranks) % ranks)});
    }
  }
  return edges;
}

/// All neighbours of a cell but itself, in the order of their coordinates. Where a dimension has
/// one or two cells only, several of them are the same rank.
Result<Edges> grid(std::string_view pattern, std::string_view sizes, int ranks) {
  std::vector<int> dimensions;
  int64_t cells = 1;
  for (const std::string_view text : split(sizes, 'x')) {
    IBCOLL_ASSIGN(const int64_t size, parse_integer(text, 1, ranks, "a size of graph grid:AxB.."));
    dimensions.push_back(static_cast<int>(size));
    cells *= size;
    if (cells > ranks) break;
  }
  if (cells != ranks || dimensions.empty() || dimensions.size() > 8)
    return bad(pattern, "its sizes, 1 to 8 of them, must multiply to the {} ranks", ranks);
  size_t steps = 1;
  for (size_t i = 0; i < dimensions.size(); ++i) steps *= 3;
  if (steps * static_cast<size_t>(ranks) > kMostEdges)
    return bad(pattern, "it has more than {} edges", kMostEdges);
  Edges edges;
  for (Rank rank = 0; rank < ranks; ++rank) {
    for (size_t step = 0; step < steps; ++step) {
      if (step == steps / 2) continue;  // to itself
      int64_t to = 0, rest = rank, before = ranks;
      size_t digits = step;
      for (const int size : dimensions) {
        before /= size;
        const int64_t at = rest / before;
        rest %= before;
        to = to * size + (at + static_cast<int64_t>(digits % 3) - 1 + size) % size;
        digits /= 3;
      }
      edges.push_back({rank, static_cast<Rank>(to)});
    }
  }
  return edges;
}

Result<Edges> at_random(std::string_view pattern, std::string_view numbers, int ranks) {
  const std::vector<std::string_view> parts = split(numbers, ':');
  if (parts.size() != 2) return bad(pattern, "it is random:K:SEED");
  const int64_t most = static_cast<int64_t>(kMostEdges) / ranks;
  IBCOLL_ASSIGN(const int64_t degree, parse_integer(parts[0], 0, most, "the K of random:K:SEED"));
  IBCOLL_ASSIGN(const int64_t seed,
                parse_integer(parts[1], 0, UINT32_MAX, "the SEED of random:K:SEED"));
  std::mt19937 random(static_cast<uint32_t>(seed));
  Edges edges;
  for (Rank rank = 0; rank < ranks; ++rank) {
    for (int64_t i = 0; i < degree; ++i) {
      edges.push_back({rank, static_cast<Rank>(random() % static_cast<uint32_t>(ranks))});
    }
  }
  return edges;
}

Result<Edges> from_text(std::string_view text, int ranks) {
  Edges edges;
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    for (const std::string_view word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.empty()) continue;
    if (words.size() != 2)
      return fail(ErrorCode::kInput, "line {}: a line is 'source destination'", number);
    Rank ends[2];
    for (int i = 0; i < 2; ++i) {
      const auto rank = parse_integer(words[static_cast<size_t>(i)], 0, ranks - 1, "a rank");
      if (!rank) return fail(ErrorCode::kInput, "line {}: {}", number, rank.error().message);
      ends[i] = static_cast<Rank>(*rank);
    }
    edges.push_back({ends[0], ends[1]});
  }
  return edges;
}

}  // namespace

const char* graph_patterns() {
  return "ring:K, grid:AxBxC, random:K:SEED, or a file with lines 'source destination'";
}

Result<std::shared_ptr<const Graph>> parse_graph(std::string_view pattern, const Shape& shape) {
  const int ranks = shape.ranks();
  const size_t colon = pattern.find(':');
  const std::string_view kind = pattern.substr(0, colon);
  const std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : pattern.substr(colon + 1);
  Result<Edges> edges;
  if (colon != std::string_view::npos && kind == "ring") {
    edges = ring(rest, ranks);
  } else if (colon != std::string_view::npos && kind == "grid") {
    edges = grid(pattern, rest, ranks);
  } else if (colon != std::string_view::npos && kind == "random") {
    edges = at_random(pattern, rest, ranks);
  } else {
    const std::string path(pattern);
    IBCOLL_ASSIGN(const std::string text, read_input(path));
    edges = of_input(path, from_text(text, ranks));
  }
  if (!edges) return tl::unexpected<Error>(edges.error());
  return Graph::create(shape, *edges);
}

}  // namespace ibcoll::measure
