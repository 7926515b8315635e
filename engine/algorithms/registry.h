#pragma once
/// The algorithms there are. A new one is a file in this folder that writes one rank's program and
/// registers an AlgorithmSpec; tools, tests, executor and simulator find it here.

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

#include "engine/base/result.h"
#include "engine/schedule/program.h"

namespace ibcoll {

using ProgramPtr = std::shared_ptr<const RankProgram>;

/// A set of collectives.
class Collectives {
 public:
  constexpr Collectives(std::initializer_list<Collective> all) {
    for (const Collective one : all) bits_ |= 1u << static_cast<int>(one);
  }
  constexpr bool contain(Collective one) const { return (bits_ >> static_cast<int>(one) & 1) != 0; }
  friend constexpr bool operator==(const Collectives&, const Collectives&) = default;

 private:
  uint32_t bits_ = 0;
};

/// Broadcasts between the leaders of servers: whom one of them must know beside those below it in
/// the binomial tree, as a multicast tells its members (multicast/role.h).
enum class Relatives : uint8_t {
  kChildren,   ///< nobody: the binomial tree alone
  kRing,       ///< the leaders before and behind: scatter and ring allgather
  kEverybody,  ///< partners at many distances: recursive doubling, circulant graph. Such messages
               ///< are long, the set is at most 13 KB for 100 000 ranks
};

/// Broadcasts: by which ways a block reaches the servers, where a bound of the time is known for
/// them (multicast/bound.h).
enum class Spread : uint8_t {
  kOther,            ///< no bound is known
  kFromRoot,         ///< the root sends to all
  kTree,             ///< a binomial tree of servers, piece by piece
  kChain,            ///< from server to server, piece by piece
  kCirculant,        ///< a part in each step, along the circulant graph
  kScatterRing,      ///< a part for each server, which then go round
  kScatterDoubling,  ///< a part for each server, which then double in each step
};

class ImportedPrograms;

/// What a file says of its algorithm.
struct AlgorithmSpec {
  std::string_view name;
  Collectives collectives;   ///< that move their blocks in this way
  std::string_view summary;  ///< what it does, in one line
  std::string_view when;     ///< when to choose it
  std::string_view source;   ///< who described it, or what has it
  bool paced = false;        ///< heeds AlgorithmOptions::pacing
  bool relays = false;       ///< blocks may pass through other ranks
  /// Carries out a plan for the network (AlgorithmOptions::plan), which says how many pieces there
  /// are, and is made for servers of one port.
  bool planned = false;
  /// Bcast: cuts the block into as many slots as AlgorithmOptions::cut says, where others pass on
  /// the pieces of streams.
  bool cuts = false;
  /// Bcast: ranks other than the leaders of servers (ServerLine::leader) send to other servers,
  /// too. A multicast, of whose members only those know each other, can't go by it.
  bool beyond_leaders = false;
  Relatives relatives = Relatives::kEverybody;  ///< bcast
  Spread spread = Spread::kOther;               ///< bcast
  /// What a block of so many bytes takes between servers, for the tuner to compare, in the bytes
  /// that a link could carry meanwhile; null: not known.
  int64_t (*cost)(const Shape& shape, int64_t bytes) = nullptr;
  /// How many pieces a block of so many bytes is best passed on in; null: as other algorithms of
  /// the collective.
  uint32_t (*pieces)(const Shape& shape, int64_t bytes) = nullptr;
  /// Reductions: whether AlgorithmOptions::ordered can be asked for on that shape; null: never.
  bool (*keeps_order)(const Shape& shape) = nullptr;
  /// Set where messages may be sent unasked: of collectives in which ranks can run ahead
  /// (is_one_way()) not in every call. No put between servers is of more slots than this, on any
  /// rank; of a block that is cut, of more blocks.
  int (*largest_put)(const Shape& shape) = nullptr;
  /// Its programs are no code's: they come from files (imported.h), for some shapes; else null.
  const ImportedPrograms* imported = nullptr;
  /// Builds the program of rank `me`: a pure function of its arguments.
  ProgramPtr (*build)(Collective collective, const Shape& shape, Rank me,
                      const AlgorithmOptions& options);
};

/// An algorithm for one of its collectives.
struct Algorithm {
  const AlgorithmSpec* spec;
  Collective collective;
  std::string_view name;
  bool paced;
  /// Blocks may pass through other ranks, which must be told their lengths where they differ.
  bool relays;
  int (*largest_put)(const Shape& shape);

  /// Whether it can combine in the order of ranks (AlgorithmOptions::ordered).
  bool keeps_order(const Shape& shape) const {
    return spec->keeps_order != nullptr && spec->keeps_order(shape);
  }
  /// Whether there are programs for that shape and root: those of code are for all.
  bool is_for(const Shape& shape, Rank root) const;
  /// Tells an algorithm that cuts blocks itself how many pieces are wanted; the programs of others
  /// don't depend on it.
  void set_pieces(uint32_t pieces, AlgorithmOptions& options) const {
    if (spec->cuts) options.cut = pieces;
  }
  /// The program of rank `me`, with the acknowledgements that the options ask for.
  ProgramPtr build(const Shape& shape, Rank me, const AlgorithmOptions& options) const;
};

/// Enters a spec, which must stay, into the registry: a static object of the algorithm's file.
class Registered {
 public:
  explicit Registered(const AlgorithmSpec& spec);
};

/// AlgorithmSpec::largest_put of algorithms that put block by block.
inline int one_slot(const Shape&) { return 1; }

/// AlgorithmSpec::keeps_order of algorithms that do on every shape.
inline bool on_every_shape(const Shape&) { return true; }

/// All algorithms that are code, by collective and name.
std::span<const Algorithm> algorithms();

/// The programs of all ranks.
std::vector<ProgramPtr> build_all(const Algorithm& algorithm, const Shape& shape,
                                  const AlgorithmOptions& options = {});

/// The algorithm of that name; null where there is none.
const Algorithm* look_up_algorithm(Collective collective, std::string_view name);
/// The same; the error lists the names there are for the collective.
Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name);
/// Those of a list of names with commas between, or "all" of the collective.
Result<std::vector<const Algorithm*>> find_algorithms(Collective collective,
                                                      std::string_view names);
/// Fails where it has no programs for that shape and root, or is to combine in the order of ranks
/// and can't on that shape, with the names of those that can.
Status check_order(const Algorithm& algorithm, const Shape& shape, const AlgorithmOptions& options);

}  // namespace ibcoll
