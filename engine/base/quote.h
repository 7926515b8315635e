#pragma once
/// Text that users or files gave, made fit for messages.

#include <span>
#include <string>
#include <string_view>

namespace ibcoll {

/// The longest piece of a user's text that a message repeats.
inline constexpr size_t kMaxQuoted = 200;

/// A message on one line, fit for a terminal: control characters, and bytes that are no UTF-8, as
/// \x1b, words of more than kMaxQuoted bytes cut.
std::string printable(std::string_view message);

/// The same, with no more than kMaxQuoted bytes in a row of any of the arguments, however many
/// words they have.
std::string printable(std::string_view message, std::span<const std::string_view> arguments);

/// The first characters of a text that is UTF-8, as many as `bytes` bytes hold.
std::string_view cut_to(std::string_view text, size_t bytes);

}  // namespace ibcoll
