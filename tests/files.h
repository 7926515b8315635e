#pragma once
/// Reads the files that tests look into.

#include <string>

namespace ibcoll::testing_tools {

/// The content of a file; where it can't be read the test fails, and this gives "".
std::string content_of(const std::string& path);

}  // namespace ibcoll::testing_tools
