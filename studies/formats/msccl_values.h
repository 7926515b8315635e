#pragma once
/// What the steps of an MSCCL program do to data: which values there are, and in which slots of the
/// engine's programs they end.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/schedule/program.h"
#include "studies/formats/msccl.h"
#include "studies/formats/msccl_order.h"

namespace ibcoll::formats {

/// A slot to be: what is written once, and then only combined into.
struct Storage {
  Buffer buffer = Buffer::kNone;  ///< kNone: scratch, which has no number yet
  uint32_t slot = 0;
  Block block;
  /// Orders scratch: how often its chunk has been written before, and where that is.
  uint32_t version = 0;
  uint64_t place = 0;
};

/// What becomes of steps: one operation, or a put and its expect.
struct Move {
  enum class Kind : uint8_t { kMessage, kCopy, kReduce } kind = Kind::kCopy;
  Rank rank = 0, peer = -1;
  uint32_t level = 0;
  int64_t number = MscclStep::kUnknown;  ///< Op::step, if the file says
  /// Of `rank`, and of `peer` where there is one; a storage for each chunk.
  std::vector<uint32_t> src, dst;
};

/// Follows the data through all steps.
class MscclValues {
 public:
  /// `models`: of each rank, a program that knows collective, root and cut.
  MscclValues(const MscclProgram& program, const Shape& shape,
              const std::vector<RankProgram>& models);

  /// Goes through the steps and finds out where everything ends. Fails (kInput) where a step reads
  /// what is not certain or not there, or combines what does not belong together, and where data do
  /// not end where they should.
  Status run(MscclOrder& order);

  const std::vector<Move>& moves() const { return moves_; }
  const std::vector<Storage>& storages(Rank rank) const { return storages_[rank]; }

 private:
  using Parts = std::shared_ptr<const std::vector<Rank>>;
  struct Value {
    Block block;
    Parts parts;  ///< of a reduction: whose data are in it
    uint32_t storage = 0;
  };
  struct Access {
    uint32_t block = 0, step = 0;
  };
  struct Chunk {
    std::optional<Value> value;
    std::optional<Access> written;
    std::vector<Access> read;  ///< since then, the last of each threadblock
    uint32_t versions = 0;     ///< storages it has had
  };
  /// What is on its way to a rank.
  struct SentValues {
    std::vector<Value> values;
    size_t move = 0;
  };

  uint64_t key(Rank rank, MscclPlace place, uint32_t offset) const;
  Chunk& chunk(Rank rank, uint64_t key) { return chunks_[static_cast<size_t>(rank)][key]; }
  Status check_bounds(const StepHalf& half, const MscclStep& step) const;
  Status do_receiving(const StepHalf& half, const MscclStep& step, MscclOrder& order);
  Status do_sending(const StepHalf& half, const MscclStep& step, MscclOrder& order);
  Status do_local(const StepHalf& half, const MscclStep& step, MscclOrder& order);
  Result<Value> read(const StepHalf& half, uint64_t key, const MscclOrder& order);
  Status check_write(const StepHalf& half, uint64_t key, const MscclOrder& order);
  void write(const StepHalf& half, uint64_t key, Value value);
  Result<Value> combine(const StepHalf& half, const Value& into, const Value& from) const;
  uint32_t add_storage(Rank rank, const Block& block, uint64_t key);
  void add_move(const StepHalf& half, Move::Kind kind, std::vector<uint32_t> dst,
                std::vector<uint32_t> src);
  Status settle();
  std::string name(const StepHalf& half) const {
    return describe_step(program_, half.at.rank, half.at.block, half.at.step);
  }
  std::string name_chunk(uint64_t key) const;
  std::string name_access(Rank rank, const Access& access) const {
    return describe_step(program_, static_cast<size_t>(rank), access.block, access.step);
  }

  const MscclProgram& program_;
  const Shape& shape_;
  const std::vector<RankProgram>& models_;
  std::vector<std::map<uint64_t, Chunk>> chunks_;  // by rank
  std::vector<std::vector<Storage>> storages_;     // by rank
  std::map<uint32_t, SentValues> under_way_;
  /// What the sending half of a step sends on, by rank and threadblock.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Value>> passed_;
  std::vector<Move> moves_;
  uint64_t temporaries_ = 0;
};

}  // namespace ibcoll::formats
