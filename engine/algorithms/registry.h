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

 private:
  uint32_t bits_ = 0;
};

/// What a file says of its algorithm.
struct AlgorithmSpec {
  std::string_view name;
  Collectives collectives;   ///< that move their blocks in this way
  std::string_view summary;  ///< what it does, in one line
  std::string_view when;     ///< when to choose it
  std::string_view source;   ///< who described it, or what has it
  bool paced = false;        ///< heeds AlgorithmOptions::pacing
  bool relays = false;       ///< blocks may pass through other ranks
  /// Bcast: cuts the block into as many slots as AlgorithmOptions::cut says, where others pass on
  /// the pieces of streams.
  bool cuts = false;
  /// Bcast: ranks other than the leaders of servers (ServerLine::leader) send to other servers,
  /// too. A multicast, of whose members only those know each other, can't go by it.
  bool beyond_leaders = false;
  /// Reductions: whether AlgorithmOptions::ordered can be asked for on that shape; null: never.
  bool (*keeps_order)(const Shape& shape) = nullptr;
  /// Set where messages may be sent unasked: of collectives in which ranks can run ahead
  /// (is_one_way()) not in every call. No put between servers is of more slots than this, on any
  /// rank; of a block that is cut, of more blocks.
  int (*largest_put)(const Shape& shape) = nullptr;
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

/// All algorithms, by collective and name.
std::span<const Algorithm> algorithms();

/// The programs of all ranks.
std::vector<ProgramPtr> build_all(const Algorithm& algorithm, const Shape& shape,
                                  const AlgorithmOptions& options = {});

/// The algorithm of that name; the error lists the names there are for the collective.
Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name);
/// Fails where it is to combine in the order of ranks and can't on that shape, with the names of
/// those that can.
Status check_order(const Algorithm& algorithm, const Shape& shape, const AlgorithmOptions& options);

}  // namespace ibcoll
