#pragma once
/// Files of rules, as tests write them.

#include <string>

namespace ibcoll::testing {

inline constexpr const char* kHead = R"({"ibcoll_rules": 1, "layout": "2x2"})";

/// A file of rules with these lines.
inline std::string with_head(const std::string& lines) { return std::string(kHead) + "\n" + lines; }

}  // namespace ibcoll::testing
