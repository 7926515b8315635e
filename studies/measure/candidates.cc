#include "studies/measure/candidates.h"

#include <algorithm>
#include <array>

namespace ibcoll::measure {
namespace {

/// Shorter pieces cost more than they hide.
constexpr int64_t kLeastPieceBytes = 2048;
constexpr uint32_t kMostPieces = 1024;

/// Whether some rank passes blocks on in pieces that a rule may name. A few ranks tell: all of one
/// kind do alike. Those of a plan are its own.
bool heeds_pieces(const Algorithm& algorithm, const Shape& shape) {
  if (algorithm.spec->planned) return false;
  if (algorithm.spec->cuts) return true;
  const int ranks = shape.ranks();
  for (const Rank rank : {0, 1, ranks / 2, ranks - 1}) {
    if (rank < ranks && !algorithm.build(shape, rank, {})->streams.empty()) return true;
  }
  return false;
}

std::vector<uint32_t> other_pieces(uint32_t own, int64_t block_bytes) {
  std::vector<uint32_t> all;
  for (const uint32_t pieces : std::array{1U, own / 4, own * 4, own * 16}) {
    const bool known = std::find(all.begin(), all.end(), pieces) != all.end();
    if (pieces == 0 || pieces == own || known || pieces > kMostPieces) continue;
    if (pieces > 1 && block_bytes / pieces < kLeastPieceBytes) continue;
    all.push_back(pieces);
  }
  return all;
}

}  // namespace

Rule as_rule(Collective collective, const Shape& shape, int64_t block_bytes, const Choice& choice) {
  Rule rule;
  rule.collective = collective;
  rule.algorithm = find_algorithm(collective, choice.algorithm).value();
  if (rule.algorithm->paced) {
    rule.pacing = choice.options.pacing;
    rule.window = choice.options.window;
  }
  const uint32_t usual = choose_pieces(*rule.algorithm, {collective, shape, block_bytes});
  if (choice.pieces != usual && heeds_pieces(*rule.algorithm, shape)) rule.pieces = choice.pieces;
  return rule;
}

Rule own_choice(Collective collective, const Shape& shape, int64_t block_bytes) {
  return as_rule(collective, shape, block_bytes, choose({collective, shape, block_bytes}));
}

bool same_choice(const Rule& a, const Rule& b) {
  return a.algorithm == b.algorithm && a.pacing == b.pacing && a.window == b.window &&
         a.pieces == b.pieces;
}

std::vector<Rule> other_choices(const Rule& own, const Shape& shape, int64_t block_bytes) {
  const Collective collective = own.collective;
  std::vector<Rule> all;
  const auto add = [&](const Rule& rule) {
    if (same_choice(rule, own)) return;
    for (const Rule& other : all)
      if (same_choice(rule, other)) return;
    all.push_back(rule);
  };
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    Rule rule;
    rule.collective = collective;
    rule.algorithm = &algorithm;
    if (algorithm.paced) rule.pacing = choose_pacing(shape, block_bytes);
    add(rule);
    if (algorithm.paced && shape.servers() > 1) {
      for (const Pacing pacing :
           {Pacing::kFree, Pacing::kGate, Pacing::kToken, Pacing::kGateToken}) {
        Rule paced = rule;
        paced.pacing = pacing;
        add(paced);
        paced.window = 2;  // what gates and tokens hold back heeds no window
        if (pacing == Pacing::kFree && shape.servers() > 2) add(paced);
      }
    }
    if (block_bytes < kLeastPieceBytes || !heeds_pieces(algorithm, shape)) continue;
    const uint32_t usual = choose_pieces(algorithm, {collective, shape, block_bytes});
    for (const uint32_t pieces : other_pieces(usual, block_bytes)) {
      rule.pieces = pieces;
      add(rule);
    }
  }
  return all;
}

}  // namespace ibcoll::measure
