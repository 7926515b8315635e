#pragma once
/// Programs in MSCCL's XML form (Cowan, Maleki, Musuvathi, Saarikivi, Xiong 2023, MSCCLang, section
/// 5), which TACCL and TE-CCL write, too.
///
/// A GPU is a rank. Its threadblocks each carry out a list of steps in order; a step may come after
/// one of another threadblock of the rank. Threadblocks of two ranks that name each other and the
/// same channel are joined by a queue: what one sends, the other receives in the same order. Chunks
/// are in three buffers: input, output and scratch.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/collective.h"

namespace ibcoll::formats {

enum class MscclBuffer : uint8_t { kInput, kOutput, kScratch };

struct MscclPlace {
  MscclBuffer buffer = MscclBuffer::kInput;
  uint32_t first = 0;  ///< chunk
};

struct MscclStep {
  static constexpr int64_t kUnknown = -1;

  std::string type;  ///< "s", "r", "cpy", "re", "rcs", "rrs", "rrc", "rrcs", "nop"
  MscclPlace src, dst;
  uint32_t count = 0;         ///< chunks
  int64_t after_block = -1;   ///< the threadblock of the step that this one comes after; -1: none
  int64_t after_step = -1;    ///< its number there
  bool announces = false;     ///< others may come after it
  int64_t order = kUnknown;   ///< what export adds: the step's place among all of the schedule's,
  int64_t number = kUnknown;  ///< and its number in the program (Op::step)

  bool receives() const { return type.front() == 'r' && type != "re"; }
  bool sends() const { return type.back() == 's'; }
  bool combines() const { return type == "re" || type.starts_with("rr"); }
  /// Its result ends in `dst`.
  bool stores() const { return type != "s" && type != "rrs" && type != "nop"; }
  bool reads() const { return type == "s" || type == "cpy" || combines(); }
};

struct MscclBlock {
  int64_t id = 0;
  int64_t send = -1, recv = -1;  ///< ranks; -1: none
  int64_t channel = 0;
  std::vector<MscclStep> steps;
};

struct MscclGpu {
  uint32_t input_chunks = 0, output_chunks = 0, scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
};

/// A collective of MSCCL's that the engine has, too.
struct MscclCollective {
  std::string_view name;
  Collective collective;
};
/// Of several names of one the first is written.
inline constexpr MscclCollective kMscclCollectives[] = {
    {"allgather", Collective::kAllgather},
    {"allreduce", Collective::kAllreduce},
    {"alltoall", Collective::kAlltoall},
    {"broadcast", Collective::kBcast},
    {"gather", Collective::kGather},
    {"reduce", Collective::kReduce},
    {"reduce_scatter", Collective::kReduceScatterBlock},
    {"reducescatter", Collective::kReduceScatterBlock},
    {"scatter", Collective::kScatter},
};

struct MscclProgram {
  std::string name, collective;  ///< as the file calls it: "allreduce", "broadcast"
  uint32_t chunks = 0;           ///< of the larger buffer of a rank
  bool in_place = false;         ///< the input is the output, or a part of it
  int64_t root = -1;             ///< of a broadcast, where the file says
  std::vector<MscclGpu> gpus;
};

/// "rank 3, threadblock 2, step 0 (rrc)": for messages.
std::string describe_step(const MscclProgram& program, size_t rank, size_t block, size_t step);

/// Reads the text. Errors (kInput) name the line or the step.
Result<MscclProgram> parse_msccl(std::string_view text);
std::string to_text(const MscclProgram& program);

}  // namespace ibcoll::formats
