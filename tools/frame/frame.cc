#include "tools/frame/frame.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <string_view>
#include <vector>

#include "engine/base/output.h"
#include "engine/base/quote.h"
#include "ibcoll/ibcoll.h"

namespace ibcoll::tools {
namespace {

constexpr int kUsage = 2, kFailed = 1;

struct Tool {
  std::string name;
  std::vector<std::string_view> arguments;
};

Tool& tool() {
  static Tool self;
  return self;
}

/// A standard stream that is closed stays so: no file that is opened later takes its place, and
/// what is written to it fails.
void keep_closed_streams_closed() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) std::_Exit(kFailed);
  }
}

int fail_with(const Error& error) {
  complain(error.message);
  return exit_status(error);
}

Result<int> guarded(const std::function<Result<int>()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kNoMemory, "there is not enough memory for this");
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "{}", error.what());
  }
}

}  // namespace

void add_json_option(Command app, std::string& path, const std::string& what) {
  app.option("--json", path,
             fmt::format("Write {} to this file; -, or no value (at the end or before another "
                         "option): standard output",
                         what))
      .type_name("FILE")
      .values(0, 1)
      .with_default("-");
}

int exit_status(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kFailed;
}

void complain(const std::string& message) {
  if (reader_has_gone(message)) return;
  const char* const clear_line = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  const std::string line =
      fmt::format("{}{}: {}\n", clear_line, tool().name, printable(message, tool().arguments));
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

int run_tool_to_status(CommandLine& app, int argc, char** argv,
                       const std::function<Result<int>()>& body) {
  keep_closed_streams_closed();
  // A reader that goes is an error of the write, not a signal: ranks then leave in order.
  (void)std::signal(SIGPIPE, SIG_IGN);
  const std::string_view path = argc > 0 ? argv[0] : "";
  tool().name = path.substr(path.rfind('/') + 1);
  tool().arguments.assign(argv + std::min(argc, 1), argv + argc);
  const CommandLine::Outcome read =
      app.parse(tool().name,
                fmt::format("{} (ibcoll) {}.{}.{}", tool().name, IBCOLL_VERSION_MAJOR,
                            IBCOLL_VERSION_MINOR, IBCOLL_VERSION_PATCH),
                argc, argv);
  if (!read.error.empty()) {
    complain(read.error);
    return kUsage;
  }
  if (!read.goes_on) {
    print_text(read.help);
    const Status written = flush_output();
    return written ? 0 : fail_with(written.error());
  }
  const Result<int> status = guarded(body);
  const Status written = flush_output();
  if (!status) return fail_with(status.error());
  if (*status == 0 && !written) return fail_with(written.error());
  return *status;
}

int run_tool(CommandLine& app, int argc, char** argv, const std::function<Status()>& body) {
  return run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    IBCOLL_TRY(body());
    return 0;
  });
}

}  // namespace ibcoll::tools
