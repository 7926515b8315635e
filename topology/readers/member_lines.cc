#include "topology/readers/member_lines.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace ibcoll::topology {
namespace {

/// Walks over the text's characters and counts its lines.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *line_ += *at_ == '\n';
    ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  int* line_;
};

/// Notes on which line each container and each member begins, by JSON pointer; finds names that
/// stand twice in an object, which the parser itself accepts.
class LineFinder : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  explicit LineFinder(const int& line) : line_(line) {}

  std::unordered_map<std::string, int> lines;
  std::string error;  ///< what is wrong, on line `error_line`
  int error_line = 0;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.member = name;
    if (!level.names.insert(name).second) {
      return stop(fmt::format("\"{}\" stands twice", name.substr(0, 60)));
    }
    lines[path()] = line_;
    return true;
  }
  bool parse_error(std::size_t, const std::string& token,
                   const nlohmann::detail::exception& what) override {
    static_cast<void>(what);
    return stop(token.empty() || token == "<end of file>"
                    ? "not JSON: the text ends too early"
                    : fmt::format("not JSON near '{}'", printable(token)));
  }

 private:
  struct Level {
    bool is_array = false;
    size_t index = 0;
    std::string member;
    std::unordered_set<std::string> names;
  };
  static constexpr size_t kMaxDepth = 16;

  static std::string printable(std::string text) {
    text.resize(std::min<size_t>(text.size(), 40));
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    return text;
  }
  std::string path() const {
    std::string text;
    for (const Level& level : levels_) {
      text += '/';
      text += level.is_array ? std::to_string(level.index) : level.member;
    }
    return text;
  }
  bool stop(std::string why) {
    error = std::move(why);
    error_line = line_;
    return false;
  }
  bool value() {
    if (!levels_.empty() && levels_.back().is_array) ++levels_.back().index;
    return true;
  }
  bool open(bool is_array) {
    if (levels_.size() >= kMaxDepth) return stop("nested too deeply");
    lines.emplace(path(), line_);
    levels_.push_back({is_array, 0, {}, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return value();
  }

  const int& line_;
  std::vector<Level> levels_;
};

}  // namespace

Result<std::unordered_map<std::string, int>> find_member_lines(std::string_view text,
                                                               const std::string& file) {
  int line = 1;
  LineFinder finder(line);
  const CountingIterator begin(text.data(), &line), end(text.data() + text.size(), &line);
  if (!nlohmann::ordered_json::sax_parse(begin, end, &finder)) {
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", file, finder.error_line, finder.error);
  }
  return std::move(finder.lines);
}

}  // namespace ibcoll::topology
