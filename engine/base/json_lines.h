#pragma once
/// Results for programs: `--json FILE`, one object a line.

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ibcoll {

/// Takes one JSON object a line, to a file or to standard output ("-"). Each line is flushed as it
/// is written, so an interrupted run leaves whole lines behind.
class JsonLines {
 public:
  /// Opens `path` for writing and empties it; "-" is standard output, "" a sink that drops all.
  /// Fails with the path and the reason when it can't be written.
  static Result<JsonLines> open(const std::string& path);

  /// Drops everything.
  JsonLines() = default;

  /// False for the sink that drops everything.
  bool active() const { return stream_ != nullptr; }
  /// True when the lines go to standard output, where nothing else may then be printed.
  bool to_stdout() const { return stream_.get() == stdout; }

  /// Appends one line. Numbers that JSON lacks (NaN, infinities) become null, bytes that are not
  /// UTF-8 the replacement character. A failed write is reported by close().
  void write(const nlohmann::ordered_json& object);
  /// The same for lines that are JSON objects as they are, each with its end.
  void write_lines(std::string_view lines);

  /// Ends the output; the error says if any line did not get to its place (disk full, closed pipe).
  Status close();

 private:
  struct Closer {
    void operator()(std::FILE* stream) const;
  };
  JsonLines(std::string path, std::FILE* stream) : path_(std::move(path)), stream_(stream) {}

  std::string path_;
  std::unique_ptr<std::FILE, Closer> stream_;
  int error_ = 0;  ///< errno of the first write that failed
};

/// Writes `text` to the file `path`, replacing what is there; fails with the path and the reason.
Status write_file(const std::string& path, const std::string& text);

}  // namespace ibcoll
