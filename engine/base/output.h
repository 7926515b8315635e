#pragma once
/// Standard output of tools: results for people. A write that fails (a full disk, a reader that has
/// gone) is remembered, and is the tool's failure at its end.

#include <fmt/core.h>

#include "engine/base/result.h"

namespace ibcoll {

/// Writes text to standard output; does nothing more once a write has failed.
void print_text(fmt::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::vformat(format, fmt::make_format_args(args...)));
}

/// Sees that all that was printed has got to its place. kSystem or kNoMemory where it has not.
Status flush_output();

/// Whether an error says no more than that the reader of standard output has gone, as `head` goes
/// when it has enough: a tool then ends without a word.
bool reader_has_gone(const std::string& message);

/// "can't write 'PATH': REASON" for what errno says; for a reader that has gone what
/// reader_has_gone() knows again.
[[nodiscard]] tl::unexpected<Error> fail_to_write(const std::string& path);

}  // namespace ibcoll
