#include "engine/core/program_cache.h"

namespace ibcoll {

ProgramCache::ProgramCache(size_t bytes) : limit_(bytes) {}
ProgramCache::~ProgramCache() = default;

std::shared_ptr<const RankProgram> ProgramCache::find(const Algorithm& algorithm,
                                                      const Shape& shape, Rank me,
                                                      const AlgorithmOptions& options) {
  const Key key{&algorithm,
                shape.hash(),
                me,
                options.pacing,
                options.window,
                options.root,
                options.ordered,
                options.cut,
                options.acks,
                options.plan != nullptr ? options.plan->hash : 0,
                options.graph != nullptr ? options.graph->hash() : 0};
  if (const auto found = places_.find(key); found != places_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return by_use_.front().program;
  }
  std::shared_ptr<const RankProgram> program =
      pack_lists(algorithm.build(shape, me, options), kLongestPlain);
  const size_t bytes =
      program->memory_bytes() + (program->graph != nullptr ? program->graph->memory_bytes() : 0);
  by_use_.push_front({key, program, bytes});
  places_.emplace(key, by_use_.begin());
  bytes_ += bytes;
  while (bytes_ > limit_ && by_use_.size() > 1) {
    bytes_ -= by_use_.back().bytes;
    places_.erase(by_use_.back().key);
    by_use_.pop_back();
  }
  return program;
}

void ProgramCache::forget(const Graph& graph) {
  for (auto entry = by_use_.begin(); entry != by_use_.end();) {
    const auto next = std::next(entry);
    if (entry->program->graph != nullptr && entry->key.graph == graph.hash()) {
      bytes_ -= entry->bytes;
      places_.erase(entry->key);
      by_use_.erase(entry);
    }
    entry = next;
  }
}

}  // namespace ibcoll
