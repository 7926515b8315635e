#include "tests/machines/options.h"

#include <algorithm>
#include <map>

#include "engine/base/units.h"
#include "engine/schedule/layout.h"

namespace ibcoll::machines {

const char* const kHelp = R"(Usage: machines LAYOUT [options] COMMAND [ARGUMENT...]

Runs a command on machines that are made for it and vanish with it: network namespaces of this host,
joined by a bridge, each with a host name (m1, m2, ...), an address (10.88.0.1, ...), a boot id, process
ids and a /dev/shm of its own. Files are those of this host. LAYOUT says how many ranks each has: 4x2
(four machines of two) or a list, 3,1,2. The exit status is the command's.

  --launcher own      starts the command once a rank and serves PMI-1 to it: programs of ibcoll and of
                      MPICH (the default)
  --launcher mpirun   starts it by Open MPI's mpirun
  --launcher mpiexec  starts it by MPICH's mpiexec
  --launcher none     runs it once, on one more machine, "head", where mpirun and mpiexec find the others
  --cut N after SECONDS [for SECONDS]
                      takes the link of machine N down, and up again (may be given several times)
  --rate RATE         limits each link either way, as tc says it: 1gbit
  --delay TIME        holds each packet up (2ms); this and --loss need a kernel with sch_netem
  --loss PERCENT      loses packets at random (1%)
  --bytes             says at the end what each machine has sent and received
  --share-cores       every machine may use all cores; else they are dealt to the machines, as many ranks
                      to each core, so that a library sees where ranks outnumber cores
  -h, --help          this text

Under --launcher none, on the head:
  machines enter MACHINE COMMAND...   runs a command on a machine, as ssh would
  machines start COMMAND...           starts it once a rank, as the launcher "own" does

Examples:
  machines 4x2 ib_a2a_bench --check
  machines 3,1,2 --launcher mpirun hostname
  machines 2x2 --cut 2 after 1 for 0.5 --bytes ib_a2a_bench --sizes 64K --check
  machines 2x1 --rate 1gbit --launcher none bash -c 'machines enter m1 ip addr; mpirun -n 2 hostname'
)";

namespace {

Result<int64_t> parse_seconds(const std::string& option, const std::string& text) {
  const auto seconds = parse_duration(text.ends_with("s") ? text : text + "s");
  if (!seconds || *seconds < 0 || *seconds > 86'400'000'000'000)
    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is not a number of seconds", option, text);
  return *seconds;
}

/// Hands out words of a command line.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {}
  bool any() const { return at_ < words_.size(); }
  bool next_is(std::string_view text) const { return any() && words_[at_] == text; }
  const std::string& take() { return words_[at_++]; }
  Result<std::string> value_of(const std::string& option) {
    if (!any()) return fail(ErrorCode::kInvalidArgument, "{} needs a value", option);
    return take();
  }
  std::vector<std::string> rest() const {
    return {words_.begin() + static_cast<ptrdiff_t>(at_), words_.end()};
  }

 private:
  const std::vector<std::string>& words_;
  size_t at_ = 0;
};

Result<Cut> parse_cut(Words& words) {
  Cut cut;
  IBCOLL_ASSIGN(const std::string machine, words.value_of("--cut"));
  IBCOLL_ASSIGN(const int64_t number, parse_integer(machine, 1, 200, "--cut"));
  cut.machine = static_cast<int>(number) - 1;
  if (!words.next_is("after"))
    return fail(ErrorCode::kInvalidArgument, "--cut {}: say \"after SECONDS\"", machine);
  words.take();
  IBCOLL_ASSIGN(const std::string after, words.value_of("--cut ... after"));
  IBCOLL_ASSIGN(cut.after_ns, parse_seconds("--cut ... after", after));
  if (words.next_is("for")) {
    words.take();
    IBCOLL_ASSIGN(const std::string lasting, words.value_of("--cut ... for"));
    IBCOLL_ASSIGN(cut.for_ns, parse_seconds("--cut ... for", lasting));
  }
  return cut;
}

Result<Launcher> parse_launcher(const std::string& name) {
  static const std::map<std::string, Launcher> kNames = {{"own", Launcher::kOwn},
                                                         {"mpirun", Launcher::kMpirun},
                                                         {"mpiexec", Launcher::kMpiexec},
                                                         {"none", Launcher::kNone}};
  const auto found = kNames.find(name);
  if (found == kNames.end())
    return fail(ErrorCode::kInvalidArgument,
                "--launcher {}: there are own, mpirun, mpiexec and none", name);
  return found->second;
}

/// What ends up in a command for the shell.
Result<std::string> parse_amount(const std::string& option, const std::string& text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), [](unsigned char one) {
        return std::isalnum(one) != 0 || one == '.' || one == '%';
      }))
    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is no amount", option, text);
  return text;
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& all) {
  Options options;
  Words words(all);
  std::optional<std::string> layout;
  while (words.any() && (!layout || words.rest().front().starts_with("-"))) {
    const std::string option = words.take();
    if (!option.starts_with("-")) {
      layout = option;
      continue;
    }
    if (option == "-h" || option == "--help") {
      options.help = true;
      return options;
    }
    if (option == "--bytes") {
      options.bytes = true;
    } else if (option == "--share-cores") {
      options.share_cores = true;
    } else if (option == "--cut") {
      IBCOLL_ASSIGN(const Cut cut, parse_cut(words));
      options.cuts.push_back(cut);
    } else if (option == "--launcher") {
      IBCOLL_ASSIGN(const std::string name, words.value_of(option));
      IBCOLL_ASSIGN(options.launcher, parse_launcher(name));
    } else if (option == "--rate" || option == "--delay" || option == "--loss") {
      IBCOLL_ASSIGN(const std::string text, words.value_of(option));
      std::string& amount = option == "--rate"    ? options.rate
                            : option == "--delay" ? options.delay
                                                  : options.loss;
      IBCOLL_ASSIGN(amount, parse_amount(option, text));
    } else {
      return fail(ErrorCode::kInvalidArgument, "unknown option {} (see --help)", option);
    }
  }
  if (!layout) return fail(ErrorCode::kInvalidArgument, "no layout, such as 4x2 (see --help)");
  IBCOLL_ASSIGN(options.shape, parse_layout(*layout));
  options.command = words.rest();
  if (options.command.empty()) return fail(ErrorCode::kInvalidArgument, "no command (see --help)");
  for (const Cut& cut : options.cuts) {
    if (cut.machine >= options.shape.servers())
      return fail(ErrorCode::kInvalidArgument, "--cut {}: there are {} machines", cut.machine + 1,
                  options.shape.servers());
  }
  return options;
}

}  // namespace ibcoll::machines
