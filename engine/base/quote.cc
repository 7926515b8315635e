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

/// C0, DEL, and C1 as UTF-8 has them (two bytes): 0 for a character that is none.
size_t control_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x20 || byte(at) == 0x7f) return 1;
  const bool c1 =
      byte(at) == 0xc2 && at + 1 < text.size() && byte(at + 1) >= 0x80 && byte(at + 1) < 0xa0;
  return c1 ? 2 : 0;
}

}  // namespace

std::string printable(std::string_view message) {
  std::string text;
  size_t word = 0;  // bytes of the current word so far
  for (size_t at = 0; at < message.size(); ++at) {
    word = message[at] == ' ' || message[at] == '\n' ? 0 : word + 1;
    if (word == kMaxQuoted + 1) text += kCut;
    if (word > kMaxQuoted) continue;
    const size_t control = control_bytes(message, at);
    if (message[at] == '\n') {
      text += ' ';
    } else if (control == 0) {
      text += message[at];
    } else {
      for (size_t i = 0; i < control; ++i)
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(message[at + i]));
      at += control - 1;
    }
  }
  return text;
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
