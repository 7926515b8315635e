#pragma once
/// What the library says on standard error. Whoever decides on an error logs it, once; errors that
/// are returned are not logged as well.

#include <fmt/core.h>

namespace ibcoll {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// The library's own logger: `log().warn("rank {} is late", rank)`. Lines read
/// "ibcoll[3]: warning: rank 5 is late" and go to standard error, so that they never mix with
/// results. The level is IBCOLL_LOG_LEVEL at the first use. The application's loggers, if it has
/// any, are left alone.
class Log {
 public:
  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kDebug, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kInfo, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kWarn, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kError, format, fmt::make_format_args(args...));
  }

 private:
  // Formatted in log.cc: what writes the text is not compiled anew wherever something is logged.
  static void write(LogLevel level, fmt::string_view format, fmt::format_args args);
};

inline Log log() { return {}; }

/// The rank that the calling thread's lines (and those of threads that never call this) begin with.
/// Ranks that run as threads of one process each set their own.
void set_log_rank(int rank);
/// What was set; -1 before.
int log_rank();

}  // namespace ibcoll
