#pragma once
/// What the command lines of tools and benchmarks are described with. CLI11 reads them; its header
/// costs as much to compile as a whole tool, so command_line.cc alone includes it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ibcoll::tools {

/// An option of a command, to say more of it. Lives as long as its command line.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  /// Help shows what the variable holds now.
  Option with_default() const;
  /// Help shows this, and an option that is given without a value has it.
  Option with_default(const std::string& text) const;
  /// Numbers from `low` to `high` only.
  Option between(int64_t low, int64_t high) const;
  Option between_reals(double low, double high) const;
  Option one_of(std::vector<std::string> choices) const;
  /// The name of a file that is there.
  Option existing_file() const;
  Option required() const;
  /// Can be given only where the other is.
  Option needs(Option other) const;
  /// Can't be given where the other is.
  Option excludes(Option other) const;
  /// How many values follow it.
  Option values(int number) const { return values(number, number); }
  Option values(int least, int most) const;
  /// Values may stand in one argument, with this between them.
  Option delimiter(char between) const;
  /// The help lists it under this heading; empty: not at all.
  Option group(const std::string& heading) const;
  /// What the help calls its value.
  Option type_name(const std::string& name) const;

 private:
  CLI::Option* option_;
};

/// A command, or a whole command line: what may follow its name. Lives as long as its command line.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  /// An option with a value ("--ranks"), or a value alone ("graph"), which is put into `value`: an
  /// integer, a double, a string, one of them as std::optional, or a std::vector of them.
  template <class T>
  Option option(const std::string& name, T& value, const std::string& help = {}) const;
  Option flag(const std::string& name, bool& value, const std::string& help) const;
  /// One that has been described before.
  Option described(const std::string& name) const;

  /// What its help ends with.
  void footer(const std::string& text) const;
  /// A command of its own that may follow; one of them has to.
  Command command(const std::string& name, const std::string& help) const;
  /// Whether that one has been given.
  bool given(const std::string& command) const;
  friend bool operator==(const Command&, const Command&) = default;

 protected:
  CLI::App* app_;
};

/// The whole command line of a tool. Read by run_tool (tools/frame/frame.h).
class CommandLine : public Command {
 public:
  explicit CommandLine(const std::string& summary);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// What has come of reading a command line.
  struct Outcome {
    bool goes_on = false;  ///< the options are set
    std::string help;      ///< what was asked for instead: this or the version
    std::string error;     ///< one line, where it is wrong
  };
  Outcome parse(const std::string& tool, const std::string& version, int argc,
                const char* const* argv);

 private:
  std::unique_ptr<CLI::App> owned_;
};

}  // namespace ibcoll::tools
