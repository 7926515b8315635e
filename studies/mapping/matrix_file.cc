#include "studies/mapping/matrix_file.h"

#include <algorithm>
#include <charconv>
#include <ostream>
#include <sstream>
#include <string_view>

#include "engine/base/input.h"
#include "engine/base/units.h"

namespace ibcoll::topology {
namespace {

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> parts;
  constexpr std::string_view kBlank = " \t\r";
  size_t begin = 0;
  while ((begin = line.find_first_not_of(kBlank, begin)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(kBlank, begin), line.size());
    parts.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

/// Reads lines and knows where it is, for errors.
class Lines {
 public:
  Lines(std::istream& input, const std::string& name) : input_(input), name_(name) {}

  bool next(std::string& line) {
    ++number_;
    return static_cast<bool>(std::getline(input_, line));
  }
  tl::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", name_, number_, what);
  }
  /// A finite number, not negative.
  Result<double> bytes(std::string_view text) const {
    const std::vector<std::string_view> trimmed = words(text);
    double value = 0;
    if (trimmed.size() != 1) return wrong(fmt::format("\"{}\" is not a number", text));
    const char* end = trimmed[0].data() + trimmed[0].size();
    const auto [stop, error] = std::from_chars(trimmed[0].data(), end, value);
    if (error != std::errc() || stop != end) {
      return wrong(fmt::format("\"{}\" is not a number", trimmed[0]));
    }
    if (!(value >= 0) || value > 1e300) {
      return wrong(fmt::format("{} bytes: must be finite and not negative", trimmed[0]));
    }
    return value;
  }
  Result<int64_t> whole(std::string_view text, int64_t low, int64_t high, const char* what) const {
    const auto value = parse_integer(text, low, high, what);
    if (!value) return wrong(value.error().message);
    return *value;
  }

 private:
  std::istream& input_;
  const std::string& name_;
  int64_t number_ = 0;
};

Result<CommMatrix> read_csv(Lines& lines, std::string line) {
  std::vector<Flow> flows;
  size_t columns = 0;
  int row = 0;
  do {
    if (words(line).empty()) continue;
    const std::vector<std::string_view> cells = split(line, ',');
    if (columns == 0) columns = cells.size();
    if (cells.size() != columns) {
      return lines.wrong(fmt::format("{} entries, the first row has {}", cells.size(), columns));
    }
    if (row >= static_cast<int>(columns)) {
      return lines.wrong(fmt::format("row {} of a matrix of {} columns", row + 1, columns));
    }
    for (size_t column = 0; column < columns; ++column) {
      IBCOLL_ASSIGN(const double bytes, lines.bytes(cells[column]));
      if (bytes > 0) flows.push_back({row, static_cast<int>(column), bytes});
    }
    ++row;
  } while (lines.next(line));
  if (row != static_cast<int>(columns)) {
    return lines.wrong(fmt::format("{} rows of {} columns: not square", row, columns));
  }
  return CommMatrix::from_flows(row, std::move(flows));
}

Result<CommMatrix> read_edges(Lines& lines, std::string line) {
  std::vector<Flow> flows;
  int64_t tasks = 0;
  bool declared = false;
  do {
    const size_t hash = line.find('#');
    const std::vector<std::string_view> comment =
        hash == std::string::npos ? std::vector<std::string_view>()
                                  : words(std::string_view(line).substr(hash + 1));
    if (comment.size() == 2 && comment[0] == "tasks") {
      IBCOLL_ASSIGN(tasks, lines.whole(comment[1], 1, CommMatrix::kMaxTasks, "number of tasks"));
      declared = true;
    }
    const std::vector<std::string_view> parts = words(std::string_view(line).substr(0, hash));
    if (parts.empty()) continue;
    if (parts.size() != 3) {
      return lines.wrong(fmt::format("{} words: an edge is FROM TO BYTES", parts.size()));
    }
    const int64_t last = declared ? tasks - 1 : CommMatrix::kMaxTasks - 1;
    IBCOLL_ASSIGN(const int64_t from, lines.whole(parts[0], 0, last, "sender"));
    IBCOLL_ASSIGN(const int64_t to, lines.whole(parts[1], 0, last, "receiver"));
    IBCOLL_ASSIGN(const double bytes, lines.bytes(parts[2]));
    tasks = std::max({tasks, from + 1, to + 1});
    flows.push_back({static_cast<int>(from), static_cast<int>(to), bytes});
  } while (lines.next(line));
  if (tasks == 0) return lines.wrong("no edge");
  return CommMatrix::from_flows(static_cast<int>(tasks), std::move(flows));
}

Result<CommMatrix> read_matrix_market(Lines& lines, std::string line) {
  std::transform(line.begin(), line.end(), line.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::vector<std::string_view> header = words(line);
  const auto is = [&](size_t i, std::string_view word) { return header[i] == word; };
  if (header.size() != 5 || !is(1, "matrix") || !(is(2, "coordinate") || is(2, "array")) ||
      !(is(3, "real") || is(3, "integer") || is(3, "pattern")) ||
      !(is(4, "general") || is(4, "symmetric")) || (is(2, "array") && is(3, "pattern"))) {
    return lines.wrong(fmt::format("\"{}\": no matrix of bytes in coordinates or an array", line));
  }
  const bool coordinates = is(2, "coordinate"), pattern = is(3, "pattern"),
             symmetric = is(4, "symmetric");
  const auto next_words = [&lines](std::string& text, std::vector<std::string_view>& parts) {
    do {
      if (!lines.next(text)) return false;
      parts = text.starts_with('%') ? std::vector<std::string_view>() : words(text);
    } while (parts.empty());
    return true;
  };
  std::string text;
  std::vector<std::string_view> parts;
  if (!next_words(text, parts) || parts.size() != (coordinates ? 3u : 2u)) {
    return lines.wrong("no line with the matrix's size");
  }
  IBCOLL_ASSIGN(const int64_t rows, lines.whole(parts[0], 1, CommMatrix::kMaxTasks, "rows"));
  IBCOLL_ASSIGN(const int64_t columns, lines.whole(parts[1], 1, CommMatrix::kMaxTasks, "columns"));
  if (rows != columns)
    return lines.wrong(fmt::format("{} rows, {} columns: not square", rows, columns));
  std::vector<Flow> flows;
  const auto add = [&](int64_t from, int64_t to, double bytes) {
    flows.push_back({static_cast<int>(from), static_cast<int>(to), bytes});
    if (symmetric && from != to)
      flows.push_back({static_cast<int>(to), static_cast<int>(from), bytes});
  };
  if (!coordinates) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = symmetric ? column : 0; row < rows; ++row) {
        if (!next_words(text, parts)) return lines.wrong("the array ends early");
        IBCOLL_ASSIGN(const double bytes, lines.bytes(text));
        add(row, column, bytes);
      }
    }
    return CommMatrix::from_flows(static_cast<int>(rows), std::move(flows));
  }
  IBCOLL_ASSIGN(const int64_t entries, lines.whole(parts[2], 0, int64_t{1} << 40, "entries"));
  for (int64_t i = 0; i < entries; ++i) {
    if (!next_words(text, parts)) {
      return lines.wrong(fmt::format("{} entries of {}", i, entries));
    }
    if (parts.size() != (pattern ? 2u : 3u)) {
      return lines.wrong(fmt::format("{} words in an entry", parts.size()));
    }
    IBCOLL_ASSIGN(const int64_t row, lines.whole(parts[0], 1, rows, "row"));
    IBCOLL_ASSIGN(const int64_t column, lines.whole(parts[1], 1, columns, "column"));
    double bytes = 1;
    if (!pattern) {
      IBCOLL_ASSIGN(bytes, lines.bytes(parts[2]));
    }
    add(row - 1, column - 1, bytes);
  }
  return CommMatrix::from_flows(static_cast<int>(rows), std::move(flows));
}

/// The first line of a METIS graph: "VERTICES EDGES [FORM [WEIGHTS]]". FORM is three digits, each 0
/// or 1: whether sizes and weights of vertices, and weights of edges are given.
struct MetisHeader {
  int64_t vertices = 0, edges = 0;
  bool edge_weights = false;
  size_t before_edges = 0;  ///< words of a vertex's line
};

Result<MetisHeader> read_metis_header(Lines& lines, std::string_view line) {
  const std::vector<std::string_view> parts = words(line);
  if (parts.size() < 2 || parts.size() > 4) {
    return lines.wrong(fmt::format(
        "{} words: a METIS graph begins with VERTICES EDGES [FORM [WEIGHTS]]", parts.size()));
  }
  MetisHeader header;
  IBCOLL_ASSIGN(header.vertices, lines.whole(parts[0], 1, CommMatrix::kMaxTasks, "vertices"));
  IBCOLL_ASSIGN(header.edges, lines.whole(parts[1], 0, int64_t{1} << 40, "edges"));
  if (parts.size() == 2) return header;
  const std::string_view form = parts[2];
  if (form.size() > 3 || form.find_first_not_of("01") != std::string_view::npos)
    return lines.wrong(fmt::format("form \"{}\": must be three digits, each 0 or 1", form));
  const auto says = [&](size_t from_last) {
    return from_last < form.size() && form[form.size() - 1 - from_last] == '1';
  };
  header.edge_weights = says(0);
  int64_t weights = says(1) ? 1 : 0;
  if (parts.size() == 4) {
    IBCOLL_ASSIGN(weights, lines.whole(parts[3], says(1) ? 1 : 0, 1000, "weights of a vertex"));
  }
  header.before_edges = (says(2) ? 1 : 0) + (says(1) ? weights : 0);
  return header;
}

Result<CommMatrix> read_metis(Lines& lines, std::string line) {
  const auto next_line = [&lines](std::string& text) {
    do {
      if (!lines.next(text)) return false;
    } while (text.starts_with('%'));
    return true;
  };
  if (line.starts_with('%') && !next_line(line)) return lines.wrong("no graph");
  IBCOLL_ASSIGN(const MetisHeader header, read_metis_header(lines, line));
  std::vector<Flow> flows;
  for (int from = 0; from < header.vertices; ++from) {
    if (!next_line(line))
      return lines.wrong(fmt::format("{} vertices of {}", from, header.vertices));
    const std::vector<std::string_view> parts = words(line);
    const size_t each = header.edge_weights ? 2 : 1;
    if (parts.size() < header.before_edges || (parts.size() - header.before_edges) % each != 0) {
      return lines.wrong(fmt::format("{} words: {} of the vertex, {} an edge", parts.size(),
                                     header.before_edges, each));
    }
    for (size_t i = header.before_edges; i < parts.size(); i += each) {
      IBCOLL_ASSIGN(const int64_t to, lines.whole(parts[i], 1, header.vertices, "vertex"));
      double bytes = 1;
      if (header.edge_weights) {
        IBCOLL_ASSIGN(bytes, lines.bytes(parts[i + 1]));
      }
      flows.push_back({from, static_cast<int>(to - 1), bytes});
    }
  }
  if (static_cast<int64_t>(flows.size()) != 2 * header.edges) {
    return lines.wrong(fmt::format("{} ends of edges, but the first line says {} edges",
                                   flows.size(), header.edges));
  }
  return CommMatrix::from_flows(static_cast<int>(header.vertices), std::move(flows));
}

}  // namespace

Result<CommMatrix> read_matrix(std::istream& input, const std::string& name) {
  Lines lines(input, name);
  std::string line;
  if (!lines.next(line)) return lines.wrong("the file is empty");
  if (name.ends_with(".graph")) return read_metis(lines, line);
  if (line.starts_with("%%MatrixMarket")) return read_matrix_market(lines, line);
  if (line.find(',') != std::string::npos && !line.starts_with('#')) return read_csv(lines, line);
  return read_edges(lines, line);
}

Result<CommMatrix> read_matrix_file(const std::string& path) {
  IBCOLL_ASSIGN(std::string text, read_input(path));
  std::istringstream file(std::move(text));
  return of_input(read_matrix(file, path));
}

void write_edge_list(const CommMatrix& matrix, std::ostream& output) {
  output << "# tasks " << matrix.tasks() << '\n';
  for (const Flow& flow : matrix.flows()) {
    output << fmt::format("{} {} {}\n", flow.from, flow.to, flow.bytes);
  }
}

}  // namespace ibcoll::topology
