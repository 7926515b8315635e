#pragma once
/// A text file a line at a time, for readers that say where they stopped.

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ibcoll::topology {

/// The lines of a text, numbered from 1, without their line ends.
class Lines {
 public:
  Lines(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  /// The next line; false at the end.
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++number_;
    return true;
  }
  int number() const { return number_; }
  /// "file:12".
  std::string where() const { return fmt::format("{}:{}", file_, number_); }
  template <class... Args>
  [[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> format,
                                           Args&&... args) const {
    return ibcoll::fail(ErrorCode::kInvalidArgument, "{}: {}", where(),
                        fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view rest_;
  std::string file_;
  int number_ = 0;
};

/// Takes a line apart from its beginning. Each step says whether it found what was asked for; after
/// one that did not, the place is where it was.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }
  bool literal(std::string_view text) {
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  /// A whole number of the given base, at most `limit`.
  std::optional<uint64_t> number(int base, uint64_t limit) {
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (error != std::errc() || value > limit) return std::nullopt;
    rest_.remove_prefix(end - rest_.data());
    return value;
  }
  /// What stands between two double quotes.
  std::optional<std::string_view> quoted() {
    if (rest_.empty() || rest_.front() != '"') return std::nullopt;
    const size_t end = rest_.find('"', 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  /// Up to the next blank.
  std::string_view word() {
    const size_t end = rest_.find_first_of(" \t");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(text.size());
    return text;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace ibcoll::topology
