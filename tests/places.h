#pragma once
/// Where the tree and its programs lie. Functions, for texts that differ from clone to clone would
/// have every test compiled again in each.

#include <string>

namespace ibcoll::testing_tools {

/// The root of the source tree.
const std::string& source_dir();

/// The folder of the tools and test programs.
const std::string& bin_dir();

}  // namespace ibcoll::testing_tools
