// What stands here for live.cc in a build without libibnetdisc.

#include "topology/readers/readers.h"

namespace ibcoll::topology {

Result<Fabric> discover(const std::string&, const ReadOptions&) {
  return fail(ErrorCode::kUnsupported,
              "built without libibnetdisc: save the fabric with ibnetdiscover and dump_fts, "
              "and name the files");
}

}  // namespace ibcoll::topology
