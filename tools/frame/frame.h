#pragma once
/// What all tools have in common: the command line, how they fail, and their exit status: 0 where
/// all went well, 2 for wrong usage, 1 for everything else (input, output, what was asked for
/// failed). Whatever goes wrong is one line on standard error.

#include <functional>
#include <string>

#include "engine/base/result.h"
#include "tools/frame/command_line.h"

namespace ibcoll::tools {

/// Reads the command line into the app's options, calls `body`, and gives the exit status. Also
/// where `body` succeeds it is 1 if what it printed (engine/base/output.h) did not get to its
/// place. Where the reader of standard output has gone, nothing is said.
int run_tool(CommandLine& app, int argc, char** argv, const std::function<Status()>& body);

/// The same for a tool that says itself what went wrong: `body` gives an exit status.
int run_tool_to_status(CommandLine& app, int argc, char** argv,
                       const std::function<Result<int>()>& body);

/// The option --json, which takes a file or writes to standard output; `what`: the objects.
void add_json_option(Command app, std::string& path,
                     const std::string& what = "one object per line");

/// The exit status of a tool that ends with this error.
int exit_status(const Error& error);

/// "ib_sim: MESSAGE" on standard error, fit for a terminal; nothing where the reader of standard
/// output has gone.
void complain(const std::string& message);

}  // namespace ibcoll::tools
