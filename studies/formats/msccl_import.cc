#include "studies/formats/msccl_import.h"

#include <algorithm>
#include <cctype>

#include "engine/base/hash.h"
#include "engine/schedule/builder.h"
#include "studies/formats/msccl_values.h"

namespace ibcoll::formats {
namespace {

Result<Collective> collective_of(const MscclProgram& program, const ImportOptions& options) {
  if (options.collective && program.collective == "custom") return *options.collective;
  for (const MscclCollective& known : kMscclCollectives) {
    if (program.collective == known.name) return known.collective;
  }
  return fail(ErrorCode::kInput,
              "unknown collective '{}': one of allgather, allreduce, alltoall, broadcast, gather, "
              "reduce, reduce_scatter, scatter (--collective says what a custom one is)",
              program.collective);
}

/// A word, as names of algorithms are.
std::string word(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (fits || (!result.empty() && result.back() != '_')) result += fits ? c : '_';
  }
  while (!result.empty() && result.back() == '_') result.pop_back();
  constexpr size_t kLongest = 64;
  return result.empty() ? "imported" : result.substr(0, kLongest);
}

/// Writes the programs of all ranks at once.
class MscclWriter {
 public:
  MscclWriter(const Shape& shape, const std::vector<RankProgram>& models, const MscclValues& values,
              const std::string& name)
      : values_(values), last_(models.size()) {
    for (const RankProgram& model : models) {
      AlgorithmOptions options;
      options.root = model.root;
      builders_.push_back(
          std::make_unique<ProgramBuilder>(model.collective, name, shape, model.me, options));
      ProgramBuilder& builder = *builders_.back();
      if (model.cut > 1) builder.cut_block(model.cut);
      std::vector<Block> scratch;
      for (const Storage* storage : scratch_of(model.me)) scratch.push_back(storage->block);
      builder.add_scratch(scratch);
      builder.begin_relaxed();
    }
  }

  void write(const Move& move) {
    const bool message = move.kind == Move::Kind::kMessage;
    const Rank receiver = message ? move.peer : move.rank;
    // Steps ascend on each rank, and a message has one at both ends.
    uint32_t step =
        move.number >= 0 ? static_cast<uint32_t>(move.number) : std::max(move.level, 1u) - 1;
    step = std::max({step, last_[move.rank], last_[receiver]});
    last_[move.rank] = last_[receiver] = step;
    builders_[move.rank]->begin_step(step);
    builders_[receiver]->begin_step(step);
    for (size_t first = 0; first < move.src.size();) {
      size_t end = first + 1;
      while (end < move.src.size() && follows(move.rank, move.src[end - 1], move.src[end]) &&
             follows(receiver, move.dst[end - 1], move.dst[end]))
        ++end;
      const Slice src = slice(move.rank, move.src[first], end - first);
      const Slice dst = slice(receiver, move.dst[first], end - first);
      switch (move.kind) {
        case Move::Kind::kMessage:
          builders_[move.rank]->put(receiver, src, dst);
          builders_[receiver]->expect(move.rank, dst);
          break;
        case Move::Kind::kCopy:
          builders_[move.rank]->copy(dst, src);
          break;
        case Move::Kind::kReduce:
          builders_[move.rank]->reduce(dst, src, {});
          break;
      }
      first = end;
    }
  }

  std::vector<std::shared_ptr<const RankProgram>> finish() {
    std::vector<std::shared_ptr<const RankProgram>> programs;
    for (auto& builder : builders_) programs.push_back(builder->finish());
    return programs;
  }

 private:
  std::vector<const Storage*> scratch_of(Rank rank) const {
    std::vector<const Storage*> scratch;
    for (const Storage& storage : values_.storages(rank)) {
      if (storage.buffer == Buffer::kScratch) scratch.push_back(&storage);
    }
    std::sort(scratch.begin(), scratch.end(),
              [](const Storage* a, const Storage* b) { return a->slot < b->slot; });
    return scratch;
  }
  bool follows(Rank rank, uint32_t a, uint32_t b) const {
    const Storage &one = values_.storages(rank)[a], &other = values_.storages(rank)[b];
    return one.buffer == other.buffer && one.slot + 1 == other.slot;
  }
  Slice slice(Rank rank, uint32_t first, size_t count) const {
    const Storage& storage = values_.storages(rank)[first];
    return {storage.buffer, storage.slot, static_cast<uint32_t>(count)};
  }

  const MscclValues& values_;
  std::vector<std::unique_ptr<ProgramBuilder>> builders_;
  std::vector<uint32_t> last_;  // by rank: the step of what was written last
};

/// Equal on all ranks, and different for programs that do different things.
uint64_t hash_of_all(const Programs& programs) {
  uint64_t hash = mix(0, programs.size());
  for (const auto& program : programs) {
    const nlohmann::ordered_json json = program_to_json(*program);
    hash = mix(hash, hash_bytes(json.dump()));
  }
  return hash;
}

}  // namespace

Result<LoadedSchedule> import_msccl(const MscclProgram& program, const Shape& shape,
                                    const ImportOptions& options) {
  IBCOLL_ASSIGN(const Collective collective, collective_of(program, options));
  const auto ranks = static_cast<uint32_t>(program.gpus.size());
  if (shape.ranks() != static_cast<int>(ranks)) {
    return fail(ErrorCode::kInvalidArgument, "the program is of {} ranks, the layout of {}", ranks,
                shape.ranks());
  }
  const CollectiveTraits& row = traits(collective);
  if (!row.cuts) {
    return fail(ErrorCode::kInvalidArgument, "MSCCL has no collective {}", to_string(collective));
  }
  const bool per_rank = row.send.slots == Slots::kEachRank || row.recv.slots == Slots::kEachRank;
  if (per_rank && program.chunks % ranks != 0) {
    return fail(ErrorCode::kInput, "{} chunks can't be divided among {} ranks", program.chunks,
                ranks);
  }
  RankProgram model;
  model.collective = collective;
  model.cut = per_rank ? program.chunks / ranks : program.chunks;
  model.root =
      row.has_root ? static_cast<Rank>(program.root >= 0 ? program.root : options.root) : 0;
  if (model.root < 0 || model.root >= shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "root {}: must be 0 to {}", model.root,
                shape.ranks() - 1);
  }
  std::vector<RankProgram> models(ranks, model);
  for (uint32_t rank = 0; rank < ranks; ++rank) models[rank].me = static_cast<Rank>(rank);

  IBCOLL_ASSIGN(MscclOrder order, MscclOrder::create(program));
  MscclValues values(program, shape, models);
  IBCOLL_TRY(values.run(order));
  const std::string name = options.name.empty() ? word(program.name) : options.name;
  MscclWriter writer(shape, models, values, name);
  for (const Move& move : values.moves()) writer.write(move);
  LoadedSchedule schedule{shape, {}, {}};
  const Programs written = writer.finish();
  const uint64_t hash = hash_of_all(written);
  for (const auto& one : written) {
    RankProgram copy = *one;
    copy.hash = hash;
    schedule.programs.push_back(std::make_shared<const RankProgram>(std::move(copy)));
  }
  auto report = verify(shape, schedule.programs);
  if (!report) return fail(ErrorCode::kInput, "{}", report.error().message);
  schedule.report = *std::move(report);
  return schedule;
}

}  // namespace ibcoll::formats
