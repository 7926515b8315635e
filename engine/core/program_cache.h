#pragma once
/// The programs a rank has built: those used last, up to so many bytes.

#include <list>
#include <map>
#include <memory>

#include "engine/algorithms/registry.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {

class ProgramCache {
 public:
  /// `bytes`: what it keeps at most, beside the program asked for last.
  explicit ProgramCache(size_t bytes);
  ~ProgramCache();

  /// The program of rank `me` for that algorithm and shape; built if it is not there. Who uses it
  /// owns a share of it.
  std::shared_ptr<const RankProgram> find(const Algorithm& algorithm, const Shape& shape, Rank me,
                                          const AlgorithmOptions& options);
  /// Drops the programs for that graph.
  void forget(const Graph& graph);
  /// Of the programs kept now, and of their graphs.
  size_t bytes() const { return bytes_; }
  size_t size() const { return places_.size(); }

 private:
  /// Longer lists are packed: to unpack operations takes much less than to carry them out, but is
  /// worth it only where there are many.
  IBCOLL_LIMIT(size_t, kLongestPlain, 8192);

  struct Key {
    const Algorithm* algorithm;
    uint64_t shape;
    Rank me;
    Pacing pacing;
    uint32_t window;
    Rank root;
    bool ordered;
    uint32_t cut;
    bool acks;
    uint64_t plan;   ///< its hash; 0: none
    uint64_t graph;  ///< the same
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const RankProgram> program;
    size_t bytes;
  };

  size_t limit_, bytes_ = 0;
  std::list<Entry> by_use_;  ///< the one used last comes first
  std::map<Key, std::list<Entry>::iterator> places_;
};

}  // namespace ibcoll
