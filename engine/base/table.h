#pragma once
/// Results for people: a table with aligned columns.

#include <string>
#include <vector>

namespace ibcoll {

/// Rows of cells under a header. Columns that hold numbers (with or without a unit: "4K", "1.2 us",
/// "93 %", "-" for none) are aligned right, others left.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  /// Adds a row; missing cells at its end stay empty, cells past the header's are dropped.
  void add_row(std::vector<std::string> cells);

  bool empty() const { return rows_.empty(); }

  /// Header, a rule and the rows, two spaces between columns, each line ending in a newline and
  /// without trailing blanks.
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ibcoll
