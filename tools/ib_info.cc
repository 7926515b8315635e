/// ib_info: what this machine offers to collectives and how the engine is configured.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/machine_info.h"
#include "engine/transport/open.h"
#include "engine/transport/unmap_watch.h"
#include "engine/tuner/rules.h"
#include "ibcoll/ibcoll.h"
#include "studies/measure/machine_line.h"
#include "tools/frame/frame.h"
#include "tools/ib_info/costs.h"
#include "tools/ib_info/job.h"
#include "tools/ib_info/measure.h"
#include "tools/ib_info/mpi.h"
#include "tools/ib_info/sizes.h"

namespace ibcoll {
namespace {

constexpr const char* kExamples = R"(
Examples:
  ib_info                      everything, for people
  ib_info --json -             everything, one JSON object per line on standard output
  ib_info --json info.jsonl    both: the report on standard output, the objects in a file
  ib_info --costs              what copying and waiting cost on this machine
  ib_info --costs --json costs.jsonl
                               the same for jobs that are started with IBCOLL_COSTS=costs.jsonl
  ib_info --job 800x128        how much memory a rank of such a job takes, and what it grows with
  ib_info --job 24x8 --calls alltoall:64K,allreduce:1M:ring --json -
                               the same for a job that makes these calls, as one JSON object
  ib_info --job 16x8 --transport loopback --calls alltoall:64:aggregate
                               the same for servers that are emulated on one machine
  ib_info --mpi                how to run programs of this machine's MPI libraries on the engine
  ib_info --mpi --measure learned.jsonl --ranks 2,4
                               which calls are faster on the engine, and which in the MPI library,
                               for programs that are started with IBCOLL_LEARNED=learned.jsonl
  ib_info --mpi --measure learned.jsonl --ranks 64 --launcher "mpirun --hostfile hosts"
)";

std::string limit_text(const std::optional<uint64_t>& bytes) {
  return bytes ? size_text(*bytes) : "unlimited";
}

std::string count_text(const std::optional<uint64_t>& count) {
  return count ? std::to_string(*count) : "unlimited";
}

/// Lines of at most 100 columns, indented.
std::string indented(std::string_view text) {
  std::string lines, line = "   ";
  for (const std::string_view word : split(text, ' ')) {
    if (line.size() + 1 + word.size() > 100) {
      lines += line + "\n";
      line = "   ";
    }
    line += ' ';
    line += word;
  }
  return lines + line + "\n";
}

nlohmann::ordered_json or_null(const auto& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

/// Sizes in ascending order, for people: "1-64, 1K".
class Sizes {
 public:
  /// `goes_on`: it follows on the one before.
  void add(int64_t size, bool goes_on) {
    if (!goes_on) ranges_.emplace_back(size, size);
    ranges_.back().second = size;
  }
  std::string text() const {
    std::string all;
    for (const auto& [low, high] : ranges_)
      all += fmt::format("{}{}{}", all.empty() ? "" : ", ", format_size(low),
                         low == high ? "" : "-" + format_size(high));
    return all.empty() ? "-" : all;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
};

/// Prints for people, writes for programs.
class Report {
 public:
  explicit Report(JsonLines& json) : json_(json) {}

  void machine(const MachineInfo& info) {
    Table table({"Machine", ""});
    table.add_row({"name", info.name});
    table.add_row({"kernel", info.kernel});
    table.add_row({"processor", info.processor});
    table.add_row(
        {"cores", fmt::format("{} in {} package(s), {} hardware thread(s), {} usable here",
                              info.cores, info.packages, info.threads, info.usable_cores)});
    for (const CacheInfo& cache : info.caches)
      table.add_row({cache.name, fmt::format("{} of {}, one for {} core(s)", cache.count,
                                             size_text(cache.bytes), cache.cores_each)});
    for (const NumaInfo& node : info.numa)
      table.add_row({fmt::format("NUMA node {}", node.number),
                     fmt::format("{}, {} core(s)", size_text(node.bytes), node.cores)});
    table.add_row({"memory", fmt::format("{}, {} available", size_text(info.memory_bytes),
                                         size_text(info.available_bytes))});
    add(table, machine_line(info));
  }

  void limits(const LimitInfo& limits, const std::string& no_direct_copy) {
    Table table({"Limits", ""});
    table.add_row({"locked memory", fmt::format("{} (at most {})", limit_text(limits.locked_bytes),
                                                limit_text(limits.locked_bytes_hard))});
    table.add_row({"address space", limit_text(limits.address_space_bytes)});
    table.add_row({"open files", fmt::format("{} (at most {})", count_text(limits.open_files),
                                             count_text(limits.open_files_hard))});
    table.add_row(
        {"copies between processes",
         no_direct_copy.empty()
             ? "allowed: user memory is copied directly"
             : fmt::format("forbidden ({}): user memory goes through staging", no_direct_copy)});
    table.add_row({"Yama ptrace scope", limits.yama_ptrace_scope
                                            ? std::to_string(*limits.yama_ptrace_scope)
                                            : "no Yama"});
    table.add_row(
        {"huge pages", fmt::format("{} of {}, {} free", limits.huge_pages,
                                   size_text(limits.huge_page_bytes), limits.huge_pages_free)});
    const auto setting = [](const std::string& value) {
      return value.empty() ? "not there" : value;
    };
    table.add_row(
        {"transparent huge pages", fmt::format("private memory: {}, shared memory: {}",
                                               setting(limits.transparent_huge_pages),
                                               setting(limits.transparent_huge_pages_shared))});
    add(table, {{"kind", "limits"},
                {"locked_bytes", or_null(limits.locked_bytes)},
                {"locked_bytes_hard", or_null(limits.locked_bytes_hard)},
                {"address_space_bytes", or_null(limits.address_space_bytes)},
                {"open_files", or_null(limits.open_files)},
                {"open_files_hard", or_null(limits.open_files_hard)},
                {"direct_copy", no_direct_copy.empty()},
                {"yama_ptrace_scope", or_null(limits.yama_ptrace_scope)},
                {"huge_page_bytes", limits.huge_page_bytes},
                {"huge_pages", limits.huge_pages},
                {"huge_pages_free", limits.huge_pages_free},
                {"transparent_huge_pages", limits.transparent_huge_pages},
                {"transparent_huge_pages_shared", limits.transparent_huge_pages_shared}});
  }

  void settings(const std::vector<ConfigEntry>& entries) {
    print("Settings\n--------\n");
    for (const ConfigEntry& entry : entries) {
      const Variable& row = *entry.row;
      print(fmt::format("{}={}  ({}; {})\n{}", row.name, entry.value,
                        entry.set ? "set in the environment" : "default", describe_type(row),
                        indented(row.help)));
      json_.write({{"kind", "setting"},
                   {"name", row.name},
                   {"value", entry.value},
                   {"default", row.default_value},
                   {"source", entry.set ? "environment" : "default"},
                   {"takes", describe_type(row)},
                   {"help", row.help}});
    }
  }

  /// What jobs on this machine would make of IBCOLL_RULES.
  void rules(const std::string& file, const std::vector<RuleSection>& sections,
             const MachineInfo& host) {
    Table table({"Rules for", "transport", "machines", "rules", "on this machine"});
    for (const RuleSection& section : sections) {
      RulesJob here = section.job;
      here.processor = host.processor;
      here.processors = online_processors();
      here.engine = fmt::format("{}.{}", IBCOLL_VERSION_MAJOR, IBCOLL_VERSION_MINOR);
      const RulesJob& job = section.job;
      const std::string differs = job.differences(here);
      table.add_row({job.layout, job.transport.empty() ? "any" : job.transport,
                     job.machines == 0 ? "any" : std::to_string(job.machines),
                     std::to_string(section.rules.size()),
                     differs.empty() ? "in force" : "left out: for " + differs});
      json_.write({{"kind", "rules"},
                   {"file", file},
                   {"layout", job.layout},
                   {"transport", job.transport},
                   {"machines", job.machines},
                   {"processor", job.processor},
                   {"processors", job.processors},
                   {"engine", job.engine},
                   {"rules", section.rules.size()},
                   {"differs", differs}});
    }
    print(fmt::format("{}\n", table.text()));
  }

  void devices(const std::vector<RdmaPortInfo>& ports) {
    if (ports.empty()) {
      print(
          "RDMA devices\n------------\nnone: servers emulated on this machine exchange data "
          "through "
          "a software loopback, machines by UCX\n\n");
      return;
    }
    Table table({"RDMA device", "port", "state", "rate", "link", "LID", "firmware"});
    for (const RdmaPortInfo& port : ports) {
      table.add_row({port.device, std::to_string(port.port), port.state, port.rate, port.link_layer,
                     port.lid, port.firmware});
      json_.write({{"kind", "rdma_port"},
                   {"device", port.device},
                   {"port", port.port},
                   {"state", port.state},
                   {"rate", port.rate},
                   {"link_layer", port.link_layer},
                   {"lid", port.lid},
                   {"firmware", port.firmware}});
    }
    print(table.text() + "\n");
  }

  /// What joins machines that verbs do not. This is about the library UCX, not about any transport:
  /// its memory hooks serve all of them. So it is named here, as its line of JSON names it.
  void ucx(const Result<std::string>& resources, const std::string& no_unmap_watch) {
    Table table({"UCX", ""});
    table.add_row(resources ? std::vector<std::string>{"transports/devices", *resources}
                            : std::vector<std::string>{"not usable", resources.error().message});
    table.add_row({"unmapped memory",
                   no_unmap_watch.empty()
                       ? "noticed: registrations of buffers are kept from call to call"
                       : fmt::format("not noticed ({}): buffers are registered for each call",
                                     no_unmap_watch)});
    add(table, {{"kind", "ucx"},
                {"usable", resources.has_value()},
                {"resources", resources.value_or("")},
                {"missing", resources ? "" : resources.error().message},
                {"unmapping_noticed", no_unmap_watch.empty()},
                {"unmapping_missing", no_unmap_watch}});
  }

  /// What ranks would use of each port, and its limits.
  void port_use(const std::vector<NetworkPort>& ports) {
    if (ports.empty()) return;
    Table table({"RDMA port", "usable", "GID", "type", "MTU", "Mbit/s", "NUMA node", "queue pairs",
                 "registrations", "longest message"});
    for (const NetworkPort& port : ports) {
      const std::string usable =
          !port.left_out.empty() ? "left out: " + port.left_out
          : port.usable          ? "yes"
                        : fmt::format("no{}{}", port.missing.empty() ? "" : ": ", port.missing);
      table.add_row({port.name, usable, port.gid, port.gid_type, std::to_string(port.mtu_bytes),
                     std::to_string(port.rate_mbps),
                     port.numa_node < 0 ? "unknown" : std::to_string(port.numa_node),
                     std::to_string(port.max_queue_pairs), std::to_string(port.max_registrations),
                     size_text(port.max_message_bytes)});
      json_.write({{"kind", "rdma_port_use"},
                   {"device", port.device},
                   {"port", port.port},
                   {"usable", port.usable},
                   {"missing", port.missing},
                   {"left_out", port.left_out},
                   {"gid", port.gid},
                   {"gid_index", port.gid_index},
                   {"gid_type", port.gid_type},
                   {"mtu_bytes", port.mtu_bytes},
                   {"rate_mbps", port.rate_mbps},
                   {"numa_node", port.numa_node},
                   {"pkey_index", port.pkey_index},
                   {"traffic_class", port.traffic_class},
                   {"max_queue_pairs", port.max_queue_pairs},
                   {"max_work_requests", port.max_work_requests},
                   {"max_completions", port.max_completions},
                   {"max_shared_receives", port.max_shared_receives},
                   {"max_registrations", port.max_registrations},
                   {"max_message_bytes", port.max_message_bytes}});
    }
    print(table.text() + "\n");
  }

  /// `library`: empty if there is none.
  void launchers(const std::vector<MpiLauncher>& launchers, const std::string& library) {
    if (launchers.empty())
      print("no MPI found: neither mpirun, mpiexec nor srun of a known MPI is in the PATH\n");
    for (const MpiLauncher& launcher : launchers) {
      print(fmt::format("{}{}{} ({}):\n  {}\n", launcher.mpi, launcher.version.empty() ? "" : " ",
                        launcher.version, launcher.path, launcher.line));
      json_.write({{"kind", "mpi"},
                   {"mpi", launcher.mpi},
                   {"version", launcher.version},
                   {"launcher", launcher.path},
                   {"library", library},
                   {"line", launcher.line}});
    }
    if (library.empty())
      print("libibcoll_mpi.so is not there: builds with a sanitizer and cross-builds lack it\n");
  }

  void begins(const MpiLauncher& launcher, int ranks) const {
    print(fmt::format("{} {} with {} ranks ({}):\n", launcher.mpi, launcher.version, ranks,
                      launcher.path));
  }

  /// What a run of an MPI has come to.
  void measured(const MpiMeasured& run) {
    Table table({"function", "left to the MPI", "on ibcoll", "MPI us : ibcoll us"});
    for (size_t i = 0; i < run.decisions.size();) {
      const size_t first = i;
      const auto same = [&](const char* member) {
        return run.decisions[i].value(member, nlohmann::ordered_json()) ==
               run.decisions[first].value(member, nlohmann::ordered_json());
      };
      std::map<std::string, Sizes> sizes;  // by who keeps them
      std::vector<double> faster;
      for (; i < run.decisions.size() && same("function") && same("exact"); ++i) {
        const nlohmann::ordered_json& each = run.decisions[i];
        const bool goes_on = i > first && run.decisions[i - 1]["choice"] == each["choice"];
        sizes[each.value("choice", "")].add(each.value("from", int64_t{0}), goes_on);
        const double ours = each.value("algorithm_us", each.value("engine_us", 0.0));
        faster.push_back(each.value("mpi_us", 0.0) / std::max(ours, 1e-3));
        json_.write(line_of(each));
      }
      const bool exact = run.decisions[first].value("exact", true);
      const auto [low, high] = std::minmax_element(faster.begin(), faster.end());
      table.add_row({run.decisions[first].value("function", "") + (exact ? "" : ", rounded"),
                     sizes["mpi"].text(), sizes["engine"].text(),
                     fmt::format("{:.2f} to {:.2f}", *low, *high)});
    }
    print(table.text() + "\n");
  }

 private:
  static nlohmann::ordered_json line_of(const nlohmann::ordered_json& decision) {
    nlohmann::ordered_json line = {{"kind", "mpi_measured"}};
    line.update(decision);
    return line;
  }
  void add(const Table& table, const nlohmann::ordered_json& line) {
    json_.write(line);
    print(table.text() + "\n");
  }
  void print(const std::string& text) const {
    if (!json_.to_stdout()) print_text(text);
  }

  JsonLines& json_;
};

Status report(const std::string& json_path) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(json_path));
  Report report(json);
  IBCOLL_ASSIGN(const MachineInfo host, machine_info());
  report.machine(host);
  IBCOLL_ASSIGN(const std::string no_direct_copy, why_no_direct_copy());
  report.limits(limit_info(), no_direct_copy);
  report.devices(rdma_ports());
  report.port_use(network_ports());
  report.ucx(usable_network_port("ucx"), UnmapWatch::missing());
  IBCOLL_ASSIGN(const std::string file, config_string("IBCOLL_RULES"));
  Status readable;
  if (!file.empty()) {
    const auto sections = read_rules(file);
    if (sections)
      report.rules(file, *sections, host);
    else
      readable = fail(sections.error().code, "IBCOLL_RULES: {}", sections.error().message);
  }
  report.settings(current_config());
  const Status environment = check_environment();
  IBCOLL_TRY(json.close());
  IBCOLL_TRY(environment);
  return readable;
}

Status report_costs_only(const std::string& json_path) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(json_path));
  IBCOLL_TRY(report_costs(json));
  return json.close();
}

Status report_job_only(const std::string& json_path, const JobQuestion& question) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(json_path));
  IBCOLL_TRY(report_job(question, json));
  return json.close();
}

Status report_mpi(const std::string& json_path) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(json_path));
  const std::string library = find_mpi_library();
  Report(json).launchers(
      find_mpi_launchers(library.empty() ? "/FULL/PATH/libibcoll_mpi.so" : library), library);
  return json.close();
}

Status report_measured(const std::string& json_path, const MpiMeasurement& wanted) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(json_path));
  Report report(json);
  IBCOLL_TRY(measure_mpi(
      wanted, find_mpi_library(),
      [&](const MpiLauncher& launcher, int ranks) { report.begins(launcher, ranks); },
      [&](const MpiMeasured& run) { report.measured(run); }));
  return json.close();
}

/// "1-4M": the smallest and the largest.
Status take_sizes(const std::string& text, MpiMeasurement& wanted) {
  IBCOLL_ASSIGN(const std::vector<int64_t> sizes, parse_sizes(text));
  const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
  wanted.least = static_cast<uint64_t>(*low);
  wanted.most = static_cast<uint64_t>(*high);
  return {};
}

}  // namespace
}  // namespace ibcoll

int main(int argc, char** argv) {
  ibcoll::tools::CommandLine app(
      "Shows what this machine offers to collectives, and how the engine is configured.");
  std::string json_path;
  bool mpi = false, costs = false;
  const ibcoll::tools::Option mpi_flag =
      app.flag("--mpi", mpi,
               "Only show how to run unchanged MPI programs on the engine: a command for each MPI "
               "found, in which 16 stands for the program's number of ranks");
  const ibcoll::tools::Option costs_flag =
      app.flag("--costs", costs,
               "Only measure what copying and waiting cost between the processors that this tool "
               "may use, and show up to which length jobs would copy messages through the ring")
          .excludes(mpi_flag);
  ibcoll::JobQuestion question;
  std::optional<std::string> job_layout;
  const ibcoll::tools::Option job =
      app.option("--job", job_layout,
                 "Only compute how much memory a rank of a job takes; ranks of each server: 3,1,2 "
                 "or 24x8 (24 servers of 8 ranks)")
          .excludes(mpi_flag)
          .excludes(costs_flag);
  app.option("--placement", question.placement, "How ranks are placed on servers: block or cyclic")
      .with_default()
      .needs(job);
  app.option("--connections", question.connections,
             "Connections between ranks of different servers: ranks (a rank has one to each rank "
             "with which it exchanges data) or auto (the same)")
      .with_default()
      .needs(job);
  app.option("--calls", question.calls,
             "Calls of the job, separated by commas: COLLECTIVE[:SIZE][:ALGORITHM]")
      .with_default()
      .needs(job);
  const std::vector<std::string_view> networks = ibcoll::networks_of_known_memory();
  question.transport = networks.front();
  app.option("--transport", question.transport,
             fmt::format("Transport between the servers: {}", fmt::join(networks, " or ")))
      .with_default()
      .needs(job);
  ibcoll::tools::add_json_option(app, json_path);
  ibcoll::MpiMeasurement wanted;
  wanted.ranks = {2, std::max(ibcoll::online_processors(), 2)};
  std::string sizes = "1-4M", as_rank;
  const ibcoll::tools::Option measures =
      app.option("--measure", wanted.file,
                 "Measure which calls are faster on the engine, and which in the MPI library, and "
                 "append the decisions to this file, for IBCOLL_LEARNED")
          .needs(mpi_flag);
  app.option("--ranks", wanted.ranks,
             "Numbers of ranks to measure with (default: 2 and the number of processors)")
      .delimiter(',')
      .between(2, 1'000'000)
      .needs(measures);
  app.option("--sizes", sizes,
             "Range of sizes to measure (default 1-4M); of a list, only the smallest and the "
             "largest size are used")
      .needs(measures);
  app.option("--launcher", wanted.launcher,
             "Command that starts the ranks, with its arguments except the number of ranks "
             "(default: every mpirun and mpiexec in the PATH)")
      .needs(measures);
  app.option("--mpi-library", wanted.mpi_library,
             "MPI library to measure, if it is not found beside the launcher")
      .needs(measures)
      .existing_file();
  app.option("--as-mpi-rank", as_rank).group("");
  app.footer(ibcoll::kExamples);
  return ibcoll::tools::run_tool(app, argc, argv, [&]() -> ibcoll::Status {
    if (!as_rank.empty() || !wanted.file.empty())
      IBCOLL_TRY(ibcoll::take_sizes(as_rank.empty() ? sizes : as_rank, wanted));
    if (!as_rank.empty()) return ibcoll::measure_as_rank(wanted.least, wanted.most);
    if (!wanted.file.empty()) return ibcoll::report_measured(json_path, wanted);
    if (costs) return ibcoll::report_costs_only(json_path);
    if (job_layout) {
      question.layout = *job_layout;
      return ibcoll::report_job_only(json_path, question);
    }
    return mpi ? ibcoll::report_mpi(json_path) : ibcoll::report(json_path);
  });
}
