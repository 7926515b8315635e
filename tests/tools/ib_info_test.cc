#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/config.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/machine_info.h"
#include "tests/command.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

using Output = testing_tools::CommandRan;

/// With what stands on standard error.
Output run_with_errors(const std::string& command) {
  return testing_tools::run_command(command + " 2>&1");
}
/// Standard output alone, which is JSON where that is asked for, whatever is warned of.
Output output_of(const std::string& command) { return testing_tools::run_command(command); }

const std::string kInfo = testing_tools::bin_dir() + "/ib_info";

TEST(IbInfo, JsonHasEverythingAndNothingElse) {
  const Output output = output_of("IBCOLL_HEAP=2G " + kInfo + " --json -");
  EXPECT_EQ(output.status, 0);
  std::set<std::string> settings, kinds;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    kinds.insert(object["kind"]);
    if (object["kind"] == "setting") settings.insert(object["name"]);
    if (object["kind"] == "machine") {
      EXPECT_EQ(object["usable_cores"], usable_cores());
      EXPECT_GE(object["cores"], object["usable_cores"]);
      EXPECT_GT(object["memory_bytes"], 0);
    }
    if (object.value("name", "") == "IBCOLL_HEAP") {
      EXPECT_EQ(object["value"], "2G");
      EXPECT_EQ(object["source"], "environment");
    }
  }
  EXPECT_EQ(settings.size(), std::size(kVariables));
  EXPECT_TRUE(kinds.contains("machine") && kinds.contains("limits"));
}

TEST(IbInfo, MeasuresCosts) {
  if (usable_cores() < 2) GTEST_SKIP() << "costs are those between two cores";
  const std::string file = ::testing::TempDir() + "ib_info_costs" + std::to_string(getpid());
  const Output people = run_with_errors(kInfo + " --costs --json " + file);
  EXPECT_EQ(people.status, 0) << people.out;
  for (const char* text : {"round_trip_ns", "stream_write_ns", "vm_page_ns", "hand_over_ns",
                           "private memory, one way", "past the caches: "})
    EXPECT_THAT(people.out, HasSubstr(text));
  std::ifstream written(file);
  std::set<std::string> kinds;
  for (std::string line; std::getline(written, line);)
    kinds.insert(nlohmann::json::parse(line)["kind"]);
  EXPECT_EQ(kinds, (std::set<std::string>{"machine_costs", "pair_costs"}));
  // A job takes them.
  const Output job = run_with_errors("IBCOLL_COSTS=" + file + " " + testing_tools::bin_dir() +
                                     "/ib_a2a_bench --ranks 2 --sizes 4K --check");
  EXPECT_EQ(job.status, 0) << job.out;
  std::filesystem::remove(file);
  const Output bad = run_with_errors("IBCOLL_COSTS=" + file + " " + testing_tools::bin_dir() +
                                     "/ib_a2a_bench --ranks 2 --sizes 4K");
  EXPECT_NE(bad.status, 0);
  EXPECT_THAT(bad.out, HasSubstr(file));
  EXPECT_EQ(run_with_errors(kInfo + " --costs --mpi").status, 2);
}

TEST(IbInfo, ShowsWhatUcxTakes) {
  const Output lo = run_with_errors("UCX_TLS=tcp UCX_NET_DEVICES=lo " + kInfo + " --json -");
  EXPECT_EQ(lo.status, 0);
  const Output none = run_with_errors("UCX_TLS=nosuch " + kInfo);
  EXPECT_EQ(none.status, 0);
  if (lo.out.find("this build has no UCX") != std::string::npos) GTEST_SKIP() << "no UCX here";
  EXPECT_THAT(lo.out, HasSubstr(R"("kind":"ucx","usable":true,"resources":"tcp/lo")"));
  EXPECT_THAT(none.out, HasSubstr("not usable"));
}

TEST(IbInfo, TellsWhereUnmappedMemoryIsNotNoticed) {
  const std::string folder = ::testing::TempDir() + "no_libucs." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/libucs.so.0") << "no library";
  const Output without = run_with_errors("LD_LIBRARY_PATH=" + folder + " " + kInfo),
               json = output_of("LD_LIBRARY_PATH=" + folder + " " + kInfo + " --json -"),
               with = output_of(kInfo + " --json -");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(without.status, 0);
  EXPECT_THAT(json.out, HasSubstr(R"("unmapping_noticed":false)"));
  EXPECT_THAT(without.out, HasSubstr("buffers are registered for each call"));
  if (json.out.find("none of UCX's memory hooks") != std::string::npos)
    GTEST_SKIP() << "built without UCX's memory hooks";
  EXPECT_THAT(without.out, HasSubstr("not noticed (" + folder + "/libucs.so.0: "));
  EXPECT_THAT(with.out, HasSubstr(R"("unmapping_noticed":true)"));
}

TEST(IbInfo, ShowsTheRulesAndWhichOfThemAreForThisMachine) {
  const std::string path = ::testing::TempDir() + "ib_info_rules." + std::to_string(getpid());
  const std::string command = "IBCOLL_RULES=" + path + " " + kInfo + " --json -";
  std::ofstream(path) << R"({"ibcoll_rules": 1, "layout": "2x2", "transport": "loopback"}
{"collective": "alltoall", "algorithm": "ring"}
{"ibcoll_rules": 1, "layout": "4x2", "processor": "an abacus"}
)";
  const Output both = output_of(command);
  EXPECT_EQ(both.status, 0);
  std::vector<nlohmann::json> rules;
  std::istringstream lines(both.out);
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object["kind"] == "rules") rules.push_back(object);
  }
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0]["layout"], "2x2");
  EXPECT_EQ(rules[0]["rules"], 1);
  EXPECT_EQ(rules[0]["differs"], "");
  EXPECT_THAT(rules[1]["differs"], HasSubstr("processor an abacus, not "));
  std::ofstream(path) << "{";
  const Output damaged = run_with_errors(command);
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, HasSubstr("IBCOLL_RULES: " + path + ": line 1: is not JSON"));
  std::remove(path.c_str());
}

TEST(IbInfo, BadInputIsRefusedInALine) {
  const Output option = run_with_errors(kInfo + " --bogus");
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.out, HasSubstr("--bogus"));
  const Output file = run_with_errors(kInfo + " --json /nonexistent/file");
  EXPECT_EQ(file.status, 1);
  EXPECT_THAT(file.out, HasSubstr("/nonexistent/file"));
  const Output value = run_with_errors("IBCOLL_BIND=sideways " + kInfo);
  EXPECT_EQ(value.status, 2);
  EXPECT_THAT(value.out, HasSubstr("IBCOLL_BIND='sideways'"));
  EXPECT_THAT(run_with_errors(kInfo + " --help").out, HasSubstr("Examples:"));
}

TEST(MachineInfo, CountsAgree) {
  const auto host = machine_info();
  ASSERT_TRUE(host.has_value());
  EXPECT_GE(host->threads, host->cores);
  EXPECT_GE(host->cores, host->packages);
  EXPECT_LE(host->available_bytes, host->memory_bytes);
  int cores_in_nodes = 0;
  for (const NumaInfo& node : host->numa) cores_in_nodes += node.cores;
  EXPECT_EQ(cores_in_nodes, host->cores);
}

/// What ib_info says of a job, as JSON.
nlohmann::json job_memory(const std::string& layout, const std::string& options = "") {
  const Output output = output_of(kInfo + " --job " + layout + " " + options + " --json -");
  EXPECT_EQ(output.status, 0) << layout << " " << options;
  return nlohmann::json::parse(output.out);
}

uint64_t bytes_of(const nlohmann::json& job, const char* member) {
  return job.at(member).get<uint64_t>();
}

constexpr const char* kParts[] = {"queue_pair_bytes", "mail_bytes", "receive_bytes", "table_bytes",
                                  "program_bytes",    "call_bytes", "shared_bytes"};

TEST(IbInfoJob, SaysWhatTheTotalConsistsOf) {
  const nlohmann::json job = job_memory("24x8");
  EXPECT_EQ(job["kind"], "job_memory");
  EXPECT_EQ(job["ranks"], 192);
  EXPECT_EQ(job["servers"], 24);
  EXPECT_EQ(job["connections"], "ranks");
  EXPECT_EQ(job_memory("24x8", "--connections auto")["connections"], "ranks");
  ASSERT_EQ(job["calls"].size(), 1u);
  EXPECT_EQ(job["calls"][0]["collective"], "alltoall");
  EXPECT_EQ(job["calls"][0]["bytes"], 65536);
  uint64_t sum = 0;
  std::map<std::string, uint64_t> parts;
  for (const auto& part : job["parts"]) parts[part["part"]] += bytes_of(part, "bytes");
  for (const char* const part : kParts) {
    EXPECT_GT(bytes_of(job, part), 0u) << part;
    EXPECT_EQ(bytes_of(job, part), parts[part]) << part;
    sum += bytes_of(job, part);
  }
  const uint64_t later = bytes_of(job, "program_bytes") + bytes_of(job, "call_bytes");
  const uint64_t before = std::max(bytes_of(job, "start_bytes"), bytes_of(job, "build_bytes"));
  EXPECT_EQ(bytes_of(job, "total_bytes"), sum + before - std::min(before, later));
  EXPECT_GT(bytes_of(job, "build_bytes"), bytes_of(job, "program_bytes"));
  EXPECT_GT(bytes_of(job, "start_root_bytes"), 0u);
  EXPECT_GT(bytes_of(job, "reserved_bytes"), 0u);
}

TEST(IbInfoJob, ListsWhatGrowsWithTheJob) {
  std::set<std::string> whats;
  const nlohmann::json job = job_memory("16x8");
  for (const auto& table : job["tables"]) {
    whats.insert(table["what"]);
    EXPECT_GT(table["bytes_per_rank"].get<double>(), 0);
    EXPECT_GT(table["why"].get<std::string>().size(), 10u);
  }
  EXPECT_TRUE(whats.contains("Shape of the job") && whats.contains("addresses of ranks") &&
              whats.contains("ports that ranks use"));
  // Nothing else that a rank has of its own grows: what a larger job takes more for its tables is
  // what these say.
  const nlohmann::json small = job_memory("100x8", "--calls alltoall:64:bruck"),
                       large = job_memory("200x8", "--calls alltoall:64:bruck");
  std::set<std::string> of_the_rank;
  for (const auto& part : large["parts"])
    if (part["part"] == "table_bytes") of_the_rank.insert(part["what"]);
  double each_rank = 0;
  uint64_t told = 0;
  for (const auto& table : large["tables"]) {
    if (!of_the_rank.contains(table["what"])) continue;
    each_rank += table["bytes_per_rank"].get<double>();
    told += bytes_of(table, "bytes");
  }
  EXPECT_NEAR(each_rank * 800,
              static_cast<double>(bytes_of(large, "table_bytes") - bytes_of(small, "table_bytes")),
              each_rank * 16);  // one partner more
  EXPECT_NEAR(each_rank * 1600, static_cast<double>(told), each_rank * 1600 * 0.1);
}

TEST(IbInfoJob, ReckonsByTheProgramsOfTheCalls) {
  const auto queue_pairs = [](const std::string& layout, const std::string& calls) {
    return bytes_of(job_memory(layout, "--calls " + calls), "queue_pairs");
  };
  EXPECT_EQ(queue_pairs("24x8", "alltoall:64K:two_level_ring"), 184u);
  EXPECT_EQ(queue_pairs("24x8", "alltoall:64K:aggregate"), 23u);
  EXPECT_EQ(queue_pairs("3,1,2", "alltoall:64K:linear"), 5u);
  EXPECT_EQ(queue_pairs("8x1", "barrier"), 5u);
  EXPECT_EQ(queue_pairs("1x8", "alltoall"), 0u);
  // Several calls share what they have in common.
  EXPECT_EQ(queue_pairs("24x8", "alltoall:64K:aggregate,alltoall:64:aggregate"), 23u);
  EXPECT_EQ(queue_pairs("24x8", "alltoall:64K:aggregate,alltoall:64K:two_level_ring"), 184u);
}

TEST(IbInfoJob, QueuesAreThoseOfAConnectX) {
  // 128 requests of 512 bytes, and 16 bytes for each of their blocks of 64.
  constexpr uint64_t kQueuePair = 128 * 512 + 1024 * 16;
  std::map<std::string, uint64_t> bytes;
  const nlohmann::json job = job_memory("9x1", "--calls alltoall:64K:linear");
  for (const auto& part : job["parts"]) bytes[part["what"]] = bytes_of(part, "bytes");
  EXPECT_EQ(bytes["send queues of queue pairs"], 8 * kQueuePair);
  EXPECT_EQ(bytes["completion queue of sends"], 2048u * 64);
  EXPECT_EQ(bytes["receive buffers (IBCOLL_RECEIVES)"] / 1024, 4096u + 16 + 32);
  const nlohmann::json few =
      nlohmann::json::parse(output_of("IBCOLL_RECEIVES=64 " + kInfo + " --job 9x1 --json -").out);
  EXPECT_LT(bytes_of(few, "receive_bytes"), bytes_of(job, "receive_bytes") / 10);
}

TEST(IbInfoJob, OverTheLoopbackAConnectionIsHalfAPage) {
  const nlohmann::json job =
      job_memory("24x8", "--transport loopback --calls alltoall:64:two_level_ring");
  std::map<std::string, uint64_t> bytes;
  for (const auto& part : job["parts"]) bytes[part["what"]] = bytes_of(part, "bytes");
  EXPECT_EQ(bytes["pairs of the software network"], 184u * 4096 / 2);
}

TEST(IbInfoJob, TellsPeopleTheSame) {
  const Output text = run_with_errors(kInfo + " --job 800x128");
  EXPECT_EQ(text.status, 0) << text.out;
  for (const char* says :
       {"102400 ranks on 800 servers", "102272 connections", "total", "Grows with the job",
        "Shape of the job", "at most 1841 of its 102272 connections", "While the job starts"})
    EXPECT_THAT(text.out, HasSubstr(says));
}

TEST(IbInfoJob, WhatIsNoJobIsRefusedInALine) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"0x8", "must be 1 to"},
      {"1x", "'1x' in layout '1x'"},
      {"-1", "'-1' in layout '-1'"},
      {"''", "empty layout"},
      {"x", "'x' in layout 'x'"},
      {"1000000x1000", "has more than 1000000 ranks"},
      {"1000000000", "must be 1 to 1000000"},
      {"99999999999999999999x8", "must be 1 to 1000000"},
      {"8x2 --calls nosuch", "unknown collective 'nosuch'"},
      {"8x2 --calls alltoall,,bcast", "--calls '': a call is"},
      {"8x2 --calls ''", "--calls"},
      {"8x2 --calls alltoall:1K:nosuch", "unknown alltoall algorithm 'nosuch'"},
      {"8x2 --calls alltoall:1Q", "'1Q' is not a size"},
      {"8x2 --calls alltoall:2T", "over the limit"},
      {"8x2 --calls alltoall:64:ring:8", "COLLECTIVE[:SIZE][:ALGORITHM]"},
      {"8x2 --calls alltoall:ring:8", "'ring' is not a size"},
      {"8x2 --calls neighbor_alltoall", "neighbours"},
      {"8x2 --connections servers", "no such connections yet"},
      {"8x2 --connections many", "one of auto, ranks"},
      {"1x8 --transport bogus", "no transport 'bogus'"},
      {"8x2 --placement sideways", "unknown placement"},
      {"8x2 --transport ucx", "not known"},
      {"8x2 --transport bogus", "no transport 'bogus'"},
      {"8x2 --costs", "excludes"},
  };
  for (const auto& [options, says] : kWrong) {
    const Output text = run_with_errors(kInfo + " --job " + options);
    EXPECT_EQ(text.status, 2) << options << ": " << text.out;
    EXPECT_THAT(text.out, HasSubstr(says)) << options;
    EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1) << text.out;
  }
  EXPECT_EQ(run_with_errors(kInfo + " --calls bcast").status, 2);
}

/// A folder with programs that say what the launchers of an MPI do.
class Launchers {
 public:
  Launchers() {
    std::filesystem::create_directories(folder_);
    std::filesystem::create_directory(prefix_ + "/include");
  }
  ~Launchers() { std::filesystem::remove_all(prefix_); }
  void add_header(const std::string& says) const {
    std::ofstream(prefix_ + "/include/mpi.h") << says;
  }
  void add(const std::string& name, const std::string& says) const {
    const std::string file = folder_ + "/" + name;
    std::ofstream(file) << "#!/bin/sh\necho '" << says << "'\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  void link(const std::string& name, const std::string& to) const {
    std::filesystem::create_symlink(folder_ + "/" + to, folder_ + "/" + name);
  }
  Output info(const std::string& options) const { return run_with_errors(command() + options); }
  Output json() const { return output_of(command() + "--json -"); }

 private:
  std::string command() const { return "PATH=" + folder_ + " " + kInfo + " --mpi "; }

  const std::string prefix_ = ::testing::TempDir() + "launchers" + std::to_string(getpid());
  const std::string folder_ = prefix_ + "/bin";
};

TEST(IbInfo, NamesTheLineOfEachMpiOnThisMachine) {
  const Launchers machine;
  machine.add("orterun", "mpirun (OpenRTE) 4.1.4");
  machine.link("mpirun", "orterun");
  machine.add("mpiexec.hydra", "HYDRA build details:\n    Version:          4.0.2");
  machine.link("mpiexec", "mpiexec.hydra");
  machine.add("srun", "slurm 22.05.8\nplugins: cray pmi2 pmix");
  machine.add("mpirun.mpich", "something else");
  const Output text = machine.info("");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("\n  mpirun -n 16 -x LD_PRELOAD=/"));
  EXPECT_THAT(text.out, HasSubstr("\n  mpiexec -n 16 -env LD_PRELOAD /"));
  EXPECT_THAT(text.out, HasSubstr("\n  srun -n 16 --mpi=pmix env LD_PRELOAD=/"));
  std::vector<std::string> found;
  std::istringstream lines(machine.json().out);
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_EQ(object["kind"], "mpi");
    EXPECT_THAT(text.out, HasSubstr(object["line"].get<std::string>()));
    found.push_back(object["mpi"].get<std::string>() + " " + object["version"].get<std::string>());
  }
  EXPECT_THAT(found,
              ::testing::ElementsAre("Open MPI 4.1.4", "MPICH 4.0.2", "any, by Slurm 22.05.8"));
}

/// Whose launcher says that it is MPICH's of 4.3.0.
std::string hydra_of(const Launchers& machine) {
  machine.add("mpiexec", "HYDRA build details:\n    Version:          4.3.0");
  const auto object = nlohmann::json::parse(machine.json().out);
  return object["mpi"].get<std::string>() + " " + object["version"].get<std::string>();
}

TEST(IbInfo, MvapichIsNamedWithItsOwnVersion) {
  EXPECT_EQ(hydra_of(Launchers()), "MPICH 4.3.0");
  {
    const Launchers machine;
    machine.add_header("#define MPICH_VERSION \"4.3.0\"\n#define MVAPICH_VERSION \"4.0\"\n");
    EXPECT_EQ(hydra_of(machine), "MVAPICH 4.0");
  }
  {
    const Launchers machine;
    machine.add_header("#define MPICH_VERSION \"4.3.0\"\n");
    EXPECT_EQ(hydra_of(machine), "MPICH 4.3.0");
    machine.add("mpichversion", "MPICH Version:\t4.3.0");
    EXPECT_EQ(hydra_of(machine), "MPICH 4.3.0");
    machine.add("mpichversion", "MVAPICH Version:\t4.0\nMVAPICH Release date:\t05/01/2025");
    EXPECT_EQ(hydra_of(machine), "MVAPICH 4.0");
  }
  const Launchers older;
  older.add("mpiname", "MVAPICH2 2.3.7 Wed March 02 2022 ch3:mrail");
  EXPECT_EQ(hydra_of(older), "MVAPICH 2.3.7");
}

TEST(IbInfo, AMachineWithoutMpiIsNoFailure) {
  const Output text = Launchers().info("");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("no MPI found"));
  EXPECT_EQ(Launchers().json().out, "");
}

TEST(IbInfo, WhatCannotBeMeasuredIsRefusedInOneLine) {
  const Launchers machine;
  machine.add("mpirun", "mpirun (OpenRTE) 4.1.4");
  const std::string file = ::testing::TempDir() + "measured" + std::to_string(getpid());
  const struct {
    std::string options;
    int status;
    const char* says;
  } kWrong[] = {
      {"--measure /nosuch/folder --ranks 2", 1, ""},
      {"--measure " + file + " --ranks 1", 2, "--ranks"},
      {"--measure " + file + " --sizes some", 2, "'some' is not a size"},
      {"--measure " + file + " --launcher nosuch", 2, "there is no program 'nosuch'"},
      {"--measure " + file + " --launcher /bin/true", 2, "starts programs of no known MPI"},
      {"--measure " + file, 1, ""},  // a launcher that has no MPI beside it
      {"--ranks 4", 2, "--measure"},
      {"--as-mpi-rank 1-4K", 2, "is for processes that"},
  };
  for (const auto& [options, status, says] : kWrong) {
    const Output text = machine.info(options + " 2>&1");
    EXPECT_EQ(text.status, status) << options << ": " << text.out;
    EXPECT_THAT(text.out, HasSubstr(says)) << options;
    EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1) << text.out;
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace ibcoll
