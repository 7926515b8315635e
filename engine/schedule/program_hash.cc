#include "engine/schedule/program_hash.h"

#include <string_view>

#include "engine/base/hash.h"

namespace ibcoll {
namespace {

constexpr uint64_t kFormatVersion = 5;  // of programs

}  // namespace

uint64_t program_hash(Collective collective, const std::string& algorithm, const Shape& shape,
                      const AlgorithmOptions& options) {
  const uint64_t fields[] = {kFormatVersion,
                             static_cast<uint64_t>(collective),
                             static_cast<uint64_t>(options.pacing),
                             options.window,
                             has_root(collective) ? static_cast<uint64_t>(options.root) : 0,
                             options.ordered,
                             options.cut,
                             options.acks,
                             options.plan != nullptr ? options.plan->hash : 0,
                             shape.hash()};
  const std::string_view bytes(reinterpret_cast<const char*>(fields), sizeof fields);
  const uint64_t hash = hash_bytes(algorithm, hash_bytes(bytes));
  return has_graph(collective) && options.graph != nullptr ? mix(hash, options.graph->hash())
                                                           : hash;
}

}  // namespace ibcoll
