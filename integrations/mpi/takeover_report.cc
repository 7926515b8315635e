#include "integrations/mpi/takeover_report.h"

#include <sstream>

#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "integrations/mpi/decisions.h"

namespace ibcoll::mpi {

namespace {

/// Of a row of Counts.
std::string name_of_row(int row) {
  const std::string name = name_of(row % kFunctions);
  switch (static_cast<Form>(row / kFunctions)) {
    case Form::kBlocking:
      break;
    case Form::kNonblocking:
      return "i" + name;
    case Form::kPersistent:
      return name + "_init";
  }
  return name;
}

constexpr std::array<const char*, kReasons> kReasonTexts = {
    "not in IBCOLL_MPI_FUNCTIONS",          "a size for the MPI",
    "a communicator of one rank",           "an intercommunicator",
    "processes of another MPI_COMM_WORLD",  "no engine",
    "no blocking call before it",           "no group of the engine's",
    "several edges between two neighbours", "an operator or type of the MPI's",
    "arguments for the MPI to check",       "measured"};

void add(std::atomic<uint64_t>& to, uint64_t value) {
  to.fetch_add(value, std::memory_order_relaxed);
}

/// "3 an intercommunicator, 1 no engine".
std::string reasons_text(const FunctionCounts& counts) {
  std::string text;
  for (int i = 0; i < kReasons; ++i) {
    if (counts.reasons[i] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts.reasons[i], kReasonTexts[i]);
  }
  return text;
}

bool was_called(const FunctionCounts& counts) { return counts.calls + counts.mpi_calls != 0; }

double mean_us(uint64_t nanoseconds, int ranks) {
  return static_cast<double>(nanoseconds) / ranks / 1000;
}

constexpr std::array<const char*, IBCOLL_WAYS> kWayNames = {"ring", "streamed", "read"};

const char* name_of_way(int way) {
  return way == IBCOLL_WAY_USUAL ? "usual" : kWayNames[static_cast<size_t>(way)];
}

std::string us_text(double us) { return us == 0 ? "-" : fmt::format("{:.2f}", us); }

/// "" if nothing is learned.
std::string learned_text(const std::vector<ibcoll_learned_way>& learned) {
  if (learned.empty()) return "";
  Table table({"rank 0's messages, bytes", "memory", "in calls", "to ranks", "go by", "us by ring",
               "us streamed", "us read"});
  for (const ibcoll_learned_way& one : learned)
    table.add_row({fmt::format("{}-{}", one.from, one.to),
                   one.private_memory != 0 ? "private" : "of the engine",
                   one.one_way != 0 ? "that only send" : "that exchange", std::to_string(one.peers),
                   name_of_way(one.way), us_text(one.us[IBCOLL_WAY_RING]),
                   us_text(one.us[IBCOLL_WAY_STREAMED]), us_text(one.us[IBCOLL_WAY_READ])});
  return table.text();
}

nlohmann::ordered_json learned_json(const ibcoll_learned_way& one) {
  nlohmann::ordered_json json = {{"from", one.from},
                                 {"to", one.to},
                                 {"memory", one.private_memory != 0 ? "private" : "engine"},
                                 {"one_way", one.one_way != 0},
                                 {"peers", one.peers},
                                 {"way", name_of_way(one.way)}};
  for (size_t way = 0; way < kWayNames.size(); ++way)
    if (one.us[way] != 0) json[fmt::format("{}_us", kWayNames[way])] = one.us[way];
  return json;
}

}  // namespace

const char* to_string(Reason reason) { return kReasonTexts[static_cast<size_t>(reason)]; }

void Counters::engine_call(Function function, Form form, uint64_t bytes, int64_t nanoseconds) {
  Cells& cells = cells_of(function, form);
  add(cells.calls, 1);
  add(cells.bytes, bytes);
  add(cells.nanoseconds, static_cast<uint64_t>(nanoseconds));
}

void Counters::mpi_call(Function function, Form form, Reason reason, int64_t nanoseconds) {
  Cells& cells = cells_of(function, form);
  add(cells.mpi_calls, 1);
  add(cells.mpi_nanoseconds, static_cast<uint64_t>(nanoseconds));
  add(cells.reasons[static_cast<size_t>(reason)], 1);
}

Counts Counters::read() const {
  Counts counts;
  for (size_t i = 0; i < counts.size(); ++i) {
    const Cells& cells = cells_[i];
    counts[i] = {cells.calls,     cells.bytes,           cells.nanoseconds,
                 cells.mpi_calls, cells.mpi_nanoseconds, {}};
    for (int reason = 0; reason < kReasons; ++reason)
      counts[i].reasons[reason] = cells.reasons[reason];
  }
  return counts;
}

std::string report_text(const ReportHead& head, const Counts& sums,
                        const std::vector<Decision>& decisions) {
  Table table({"function", "on the engine", "bytes", "us a rank", "in the MPI", "us a rank",
               "why in the MPI"});
  for (int i = 0; i < kForms * kFunctions; ++i) {
    const FunctionCounts& counts = sums[i];
    if (!was_called(counts)) continue;
    table.add_row({name_of_row(i), std::to_string(counts.calls), std::to_string(counts.bytes),
                   fmt::format("{:.1f}", mean_us(counts.nanoseconds, head.ranks)),
                   std::to_string(counts.mpi_calls),
                   fmt::format("{:.1f}", mean_us(counts.mpi_nanoseconds, head.ranks)),
                   reasons_text(counts)});
  }
  const std::string title = fmt::format(
      "ibcoll: collectives of {} ranks on {} server{} under {} {}; between servers: {}\n",
      head.ranks, head.servers, head.servers == 1 ? "" : "s", head.mpi, head.version,
      head.transport);
  return title + (table.empty() ? "none were called\n" : table.text()) + decisions_text(decisions) +
         learned_text(head.learned);
}

Status write_report(const std::string& path, const ReportHead& head, const Counts& sums,
                    const std::vector<Decision>& decisions) {
  IBCOLL_ASSIGN(JsonLines lines, JsonLines::open(path));
  nlohmann::ordered_json learned = nlohmann::ordered_json::array();
  for (const ibcoll_learned_way& one : head.learned) learned.push_back(learned_json(one));
  for (int i = 0; i < kForms * kFunctions; ++i) {
    const FunctionCounts& counts = sums[i];
    if (!was_called(counts)) continue;
    nlohmann::ordered_json reasons = nlohmann::ordered_json::object();
    for (int reason = 0; reason < kReasons; ++reason)
      if (counts.reasons[reason] != 0) reasons[kReasonTexts[reason]] = counts.reasons[reason];
    nlohmann::ordered_json decided = nlohmann::ordered_json::array();
    for (const Decision& decision : decisions)
      if (i == static_cast<int>(decision.function)) decided.push_back(decision_json(decision));
    lines.write({{"function", name_of_row(i)},
                 {"mpi", head.mpi},
                 {"version", head.version},
                 {"ranks", head.ranks},
                 {"servers", head.servers},
                 {"engine_calls", counts.calls},
                 {"engine_bytes", counts.bytes},
                 {"engine_us_per_rank", mean_us(counts.nanoseconds, head.ranks)},
                 {"mpi_calls", counts.mpi_calls},
                 {"mpi_us_per_rank", mean_us(counts.mpi_nanoseconds, head.ranks)},
                 {"reasons", reasons},
                 {"measured", decided},
                 {"learned_ways", learned}});
  }
  return lines.close();
}

}  // namespace ibcoll::mpi
