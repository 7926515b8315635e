#include "engine/base/table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ibcoll {
namespace {

/// Characters as a terminal shows them: bytes that start a UTF-8 sequence.
size_t display_width(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

/// A number, maybe with a unit behind: digits that start it, none after its first letter.
bool is_numeric(std::string_view text) {
  if (text.empty() || text == "-") return true;
  if (text.front() == '-' || text.front() == '+') text.remove_prefix(1);
  const size_t number = std::min(text.find_first_not_of("0123456789."), text.size());
  if (number == 0) return false;
  const std::string_view unit = text.substr(number);
  return unit.find_first_of("0123456789,:;") == std::string_view::npos;
}

void append_cell(std::string& line, std::string_view cell, size_t width, bool right) {
  const size_t blanks = width - display_width(cell);
  if (right) line.append(blanks, ' ');
  line += cell;
  if (!right) line.append(blanks, ' ');
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(header_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> width(header_.size());
  std::vector<bool> right(header_.size(), !rows_.empty());
  for (size_t column = 0; column < header_.size(); ++column) {
    width[column] = display_width(header_[column]);
    for (const auto& row : rows_) {
      width[column] = std::max(width[column], display_width(row[column]));
      right[column] = right[column] && is_numeric(row[column]);
    }
  }
  std::string out;
  const auto append_row = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t column = 0; column < cells.size(); ++column) {
      if (column > 0) line += "  ";
      append_cell(line, cells[column], width[column], right[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  append_row(header_);
  std::vector<std::string> rule;
  for (const size_t w : width) rule.emplace_back(w, '-');
  append_row(rule);
  for (const auto& row : rows_) append_row(row);
  return out;
}

}  // namespace ibcoll
