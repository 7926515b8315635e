// What stands here for UCX's memory hooks in a build without them.

#include "engine/transport/unmap_watch.h"

namespace ibcoll {

std::unique_ptr<UnmapWatch> UnmapWatch::create() { return nullptr; }
std::string UnmapWatch::missing() { return "this build has none of UCX's memory hooks"; }
UnmapWatch::~UnmapWatch() = default;

}  // namespace ibcoll
