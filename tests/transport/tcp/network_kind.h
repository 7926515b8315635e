#pragma once
/// An example of a transport between servers: TCP connections between all ranks, in one folder.
/// tests/transport/added_folder_test.cc puts it beside engine/ in a copy of the tree.

#include "engine/transport/network_kind.h"

namespace ibcoll::tcp {

NetworkKind network_kind();

}  // namespace ibcoll::tcp
