#include "tests/places.h"

namespace ibcoll::testing_tools {

const std::string& source_dir() {
  static const std::string folder = IBCOLL_SOURCE_DIR;
  return folder;
}

const std::string& bin_dir() {
  static const std::string folder = IBCOLL_BIN_DIR;
  return folder;
}

}  // namespace ibcoll::testing_tools
