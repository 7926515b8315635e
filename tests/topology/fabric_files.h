#pragma once
/// Files of fabrics, and what is asked of those that are read.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/places.h"
#include "topology/readers/readers.h"

namespace ibcoll::topology {

inline std::string data(const std::string& name) {
  return testing_tools::content_of(testing_tools::source_dir() + "/tests/data/fabrics/" + name);
}

/// The text with one part replaced, which must be there.
inline std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  if (at == std::string::npos) return text;
  return text.replace(at, part.size(), other);
}

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

inline std::vector<std::string> passed(const Fabric& fabric, const char* from, const char* to) {
  std::vector<std::string> names;
  fabric.visit_route(fabric.find(from).value(), fabric.find(to).value(),
                     [&](int link) { names.push_back(fabric.node(fabric.link(link).to).name); });
  return names;
}

}  // namespace ibcoll::topology
