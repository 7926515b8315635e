#include "engine/base/quote.h"

#include <fmt/format.h>

#include <algorithm>

namespace ibcoll {
namespace {

constexpr std::string_view kCut = "...";

/// How much of the text from `at` on stands in the argument, if that is more than may be repeated.
size_t repeated(std::string_view text, size_t at, std::string_view argument) {
  if (argument.size() <= kMaxQuoted || text.size() - at <= kMaxQuoted) return 0;
  const size_t found = argument.find(text.substr(at, kMaxQuoted + 1));
  if (found == std::string_view::npos) return 0;
  const auto text_end =
      std::mismatch(text.begin() + static_cast<ptrdiff_t>(at), text.end(),
                    argument.begin() + static_cast<ptrdiff_t>(found), argument.end());
  return static_cast<size_t>(text_end.first - text.begin()) - at;
}

unsigned char byte_of(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// How many bytes the character at `at` has in UTF-8; 0: it is none.
size_t character_bytes(std::string_view text, size_t at) {
  const unsigned char first = byte_of(text, at);
  const size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || bytes > text.size() - at) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (byte_of(text, at + i) >> 6 != 2) return 0;
  }
  if (bytes < 3) return bytes;
  // Not written longer than need be, no half of a pair of UTF-16, none past the last.
  const unsigned char second = byte_of(text, at + 1);
  const bool none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                    (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return none ? 0 : bytes;
}

/// Whether the character at `at` is not to reach a terminal: C0, DEL, C1, and those that end a line
/// or a paragraph.
bool is_control(std::string_view text, size_t at, size_t bytes) {
  if (bytes == 1) return byte_of(text, at) < 0x20 || byte_of(text, at) == 0x7f;
  if (bytes == 2) return byte_of(text, at) == 0xc2 && byte_of(text, at + 1) < 0xa0;
  const std::string_view character = text.substr(at, bytes);
  return character == "\u2028" || character == "\u2029";
}

}  // namespace

std::string printable(std::string_view message) {
  std::string text;
  size_t word = 0;  // bytes of the current word so far
  for (size_t at = 0, bytes = 0; at < message.size(); at += bytes) {
    const size_t character = character_bytes(message, at);
    bytes = std::max<size_t>(character, 1);
    const bool ends = message[at] == ' ' || message[at] == '\n';
    const bool fits = word <= kMaxQuoted;
    word = ends ? 0 : word + bytes;
    if (word > kMaxQuoted) {
      if (fits) text += kCut;
      continue;
    }
    if (message[at] == '\n') {
      text += ' ';
    } else if (character != 0 && !is_control(message, at, bytes)) {
      text += message.substr(at, bytes);
    } else {
      for (size_t i = 0; i < bytes; ++i) text += fmt::format("\\x{:02x}", byte_of(message, at + i));
    }
  }
  return text;
}

std::string_view cut_to(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end != 0 && byte_of(text, end) >> 6 == 2) --end;
  return text.substr(0, end);
}

std::string printable(std::string_view message, std::span<const std::string_view> arguments) {
  std::string text;
  for (size_t at = 0; at < message.size(); ++at) {
    size_t longest = 0;
    for (const std::string_view argument : arguments)
      longest = std::max(longest, repeated(message, at, argument));
    if (longest == 0) {
      text += message[at];
      continue;
    }
    text += message.substr(at, kMaxQuoted);
    text += kCut;
    at += longest - 1;
  }
  return printable(text);
}

}  // namespace ibcoll
