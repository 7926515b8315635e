#include "tools/frame/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>
#include <string_view>

namespace ibcoll::tools {
namespace {

/// What the library says of a command that it does not know is only that one is needed.
std::string unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || !app.get_subcommands().empty()) return {};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with('-')) continue;
    std::string known;
    for (const CLI::App* command : commands)
      known += (known.empty() ? "" : ", ") + command->get_name();
    return "unknown command '" + std::string(argument) + "': one of " + known;
  }
  return {};
}

}  // namespace

Option Option::with_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::with_default(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

Option Option::between(int64_t low, int64_t high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::between_reals(double low, double high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::one_of(std::vector<std::string> choices) const {
  option_->check(CLI::IsMember(std::move(choices)));
  return *this;
}

Option Option::existing_file() const {
  option_->check(CLI::ExistingFile);
  return *this;
}

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::needs(Option other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::values(int least, int most) const {
  option_->expected(least, most);
  return *this;
}

Option Option::delimiter(char between) const {
  option_->delimiter(between);
  return *this;
}

Option Option::group(const std::string& heading) const {
  option_->group(heading);
  return *this;
}

Option Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

template <class T>
Option Command::option(const std::string& name, T& value, const std::string& help) const {
  return Option(app_->add_option(name, value, help));
}

template Option Command::option(const std::string&, int&, const std::string&) const;
template Option Command::option(const std::string&, int64_t&, const std::string&) const;
template Option Command::option(const std::string&, uint32_t&, const std::string&) const;
template Option Command::option(const std::string&, uint64_t&, const std::string&) const;
template Option Command::option(const std::string&, double&, const std::string&) const;
template Option Command::option(const std::string&, std::string&, const std::string&) const;
template Option Command::option(const std::string&, std::optional<int>&, const std::string&) const;
template Option Command::option(const std::string&, std::optional<double>&,
                                const std::string&) const;
template Option Command::option(const std::string&, std::optional<int64_t>&,
                                const std::string&) const;
template Option Command::option(const std::string&, std::optional<uint64_t>&,
                                const std::string&) const;
template Option Command::option(const std::string&, std::optional<std::string>&,
                                const std::string&) const;
template Option Command::option(const std::string&, std::vector<int>&, const std::string&) const;
template Option Command::option(const std::string&, std::vector<double>&, const std::string&) const;
template Option Command::option(const std::string&, std::vector<uint32_t>&,
                                const std::string&) const;
template Option Command::option(const std::string&, std::vector<std::string>&,
                                const std::string&) const;

Option Command::flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag(name, value, help));
}

Option Command::described(const std::string& name) const { return Option(app_->get_option(name)); }

Command Command::command(const std::string& name, const std::string& help) const {
  app_->require_subcommand(1);
  return Command(app_->add_subcommand(name, help));
}

bool Command::given(const std::string& command) const { return app_->got_subcommand(command); }

CommandLine::CommandLine(const std::string& summary)
    : Command(nullptr), owned_(std::make_unique<CLI::App>(summary)) {
  app_ = owned_.get();
}

CommandLine::~CommandLine() = default;

void Command::footer(const std::string& text) const { app_->footer(text); }

CommandLine::Outcome CommandLine::parse(const std::string& tool, const std::string& version,
                                        int argc, const char* const* argv) {
  app_->name(tool);
  app_->set_version_flag("--version", version, "Print the version and exit");
  try {
    app_->parse(argc, argv);
    return {.goes_on = true, .help = {}, .error = {}};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const std::string unknown = unknown_command(*app_, argc, argv);
      return {.goes_on = false,
              .help = {},
              .error = unknown.empty() ? std::string(error.what()) : unknown};
    }
    std::ostringstream help, none;
    app_->exit(error, help, none);
    return {.goes_on = false, .help = help.str(), .error = {}};
  }
}

}  // namespace ibcoll::tools
