#pragma once
/// Whether ibcoll is as fast as it should be: the limits of single cells and of geometric means.

#include <optional>
#include <string>
#include <vector>

#include "perf/compare/tables.h"

namespace ibcoll::compare {

/// Whether a call takes 1 us or more.
bool is_long(const Cell& cell);
/// How many times as fast as the faster MPI a cell is to be at least. A call of less than 1 us is
/// one that waits for nobody: there, libraries differ by the overhead of a call.
double least_faster(const Cell& cell, int cores);
/// Whether its rounds say so little; such a cell is to be measured again.
bool seems_slow(const Cell& cell, int cores);
/// Whether the second measurement says so, too, with a confidence of 95 %.
bool is_slow(const Cell& cell, int cores);

/// Which cells of one memory are to be how many times as fast, in geometric mean.
struct MeanLimit {
  std::string of;
  double least = 0;
  bool (*counts)(const Cell& cell, int cores) = nullptr;
};
std::vector<MeanLimit> mean_limits(bool private_memory);

struct Mean {
  bool private_memory = false;
  MeanLimit limit;
  size_t cells = 0;
  double faster = 0;
  bool fails() const { return !(faster >= limit.least); }
};

struct Verdict {
  std::vector<Cell> slow;
  std::vector<Mean> means;  ///< of memories whose tables are whole
  size_t cells = 0, again = 0;
  bool passes() const;
};
Verdict judge(const std::vector<Cell>& cells, int cores);

/// What --all-tables measures, of private memory and of the engine's.
inline constexpr const char* kAllSizes = "8,64-4M:4";
inline constexpr const char* kAllRanks = "2,4,8";
/// Whether these are all cells of such a table.
bool is_whole(const std::vector<Cell>& cells, bool private_memory);

/// Why these tables can't be judged, if so: calls followed barriers, the machine was busy, as far
/// as is known before or during the comparison, or what seems slow was not measured again.
std::optional<std::string> why_not_to_judge(const Tables& tables, double most_load);

/// Adds what a comparison that is judged says of a cell: its limit, and the second measurement.
void add_judged(nlohmann::ordered_json& line, const Cell& cell, int cores);
/// `most_load`: what others could have had of the processor time.
nlohmann::ordered_json verdict_line(const Verdict& verdict, double most_load);
/// For people: what is slow, and the means.
std::string verdict_text(const Verdict& verdict, int cores);

}  // namespace ibcoll::compare
