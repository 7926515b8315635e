#pragma once
/// What the library says on standard error. Whoever decides on an error logs it, once; errors that
/// are returned are not logged as well.

#include <spdlog/logger.h>

namespace ibcoll {

/// The library's own logger: `log().warn("rank {} is late", rank)`. Lines read
/// "ibcoll[3]: warning: rank 5 is late". The level is IBCOLL_LOG_LEVEL at the first use. The
/// application's spdlog loggers, if it has any, are left alone.
spdlog::logger& log();

/// The rank that the calling thread's lines (and those of threads that never call this) begin with.
/// Ranks that run as threads of one process each set their own.
void set_log_rank(int rank);
/// What was set; -1 before.
int log_rank();

}  // namespace ibcoll
