#pragma once
/// Algorithms that are no code but programs from files (schedule/json.h): what `ib_sched import`
/// has made of others' schedules. They are chosen by name, in calls, rules and tools.

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/schedule/verifier.h"

namespace ibcoll {

/// The programs of one algorithm, each for one shape and, where there is one, root. They are never
/// taken away again.
class ImportedPrograms {
 public:
  ImportedPrograms(Collective collective, std::string name);
  ImportedPrograms(const ImportedPrograms&) = delete;
  ImportedPrograms& operator=(const ImportedPrograms&) = delete;

  const Algorithm& algorithm() const { return algorithm_; }
  /// Whether there are programs for that shape and root.
  bool has(const Shape& shape, Rank root) const { return find(shape, 0, root) != nullptr; }
  /// Rank `me`'s; null where there are none.
  ProgramPtr find(const Shape& shape, Rank me, Rank root) const;
  /// "4x2, 8", and the roots: what there is, for messages.
  std::string describe() const;
  /// The same programs may be added again.
  Status add(const Shape& shape, const Programs& programs);

 private:
  struct Set {
    Shape shape;
    Programs programs;
  };
  std::string name_;
  AlgorithmSpec spec_;
  Algorithm algorithm_;
  mutable std::mutex mutex_;
  std::vector<Set> sets_;
};

/// Makes a verified schedule an algorithm of this process. Fails where its name is one of the
/// engine's own, no name at all, or has other programs for the shape.
Status add_imported(const Shape& shape, const Programs& programs);

/// The imported algorithm of that name; null where there is none.
const Algorithm* look_up_imported(Collective collective, std::string_view name);
/// All of them, by collective and name.
std::vector<const Algorithm*> imported_algorithms();

/// A file of a directory, and what it holds.
struct ProgramFile {
  std::string path, text;
};
/// The files of a directory whose names end in .json or .jsonl, by name.
Result<std::vector<ProgramFile>> read_program_files(const std::string& directory);
/// Who proves what a file holds.
enum class Proof {
  kHere,
  kElsewhere,  ///< another process has proved the same text
};
/// Adds what the file holds. `most_ranks`: schedules of more ranks are left out, and not proved.
Status add_imported(const ProgramFile& file, int most_ranks, Proof proof);
/// The same for all files of the directory that IBCOLL_PROGRAMS names, if it does: for tools.
Status add_imported_of_environment();

}  // namespace ibcoll
