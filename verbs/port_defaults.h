#pragma once
/// What an administrator has set for a RoCE port of this machine.

#include <string>

namespace ibcoll::verbs {

/// The traffic class of connections that name none: NVIDIA's driver has it in sysfs, the kernel in
/// configfs, for connections that librdmacm makes; 0 where neither says one. `root`: where the
/// machine's files are.
int default_traffic_class(const std::string& device, int port, const std::string& root = "");

}  // namespace ibcoll::verbs
