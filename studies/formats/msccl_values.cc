#include "studies/formats/msccl_values.h"

#include <algorithm>

#include "engine/schedule/describe.h"

namespace ibcoll::formats {
namespace {

// A chunk's key: the buffer, and its number there. What is never stored is of a fourth one.
constexpr int kBufferShift = 32;
constexpr uint64_t kTemporary = 3;
/// Scratch is numbered before the rest.
constexpr uint64_t rank_of_buffer(MscclBuffer buffer) {
  return buffer == MscclBuffer::kScratch ? 0 : buffer == MscclBuffer::kOutput ? 1 : 2;
}

}  // namespace

MscclValues::MscclValues(const MscclProgram& program, const Shape& shape,
                         const std::vector<RankProgram>& models)
    : program_(program),
      shape_(shape),
      models_(models),
      chunks_(models.size()),
      storages_(models.size()) {
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    const RankProgram& model = models[rank];
    Parts own;
    if (reduces(model.collective)) own = std::make_shared<const std::vector<Rank>>(1, rank);
    const uint32_t slots = model.send_slots(shape);
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const Block block = model.block(Buffer::kSend, slot);
      const auto storage = static_cast<uint32_t>(storages_[rank].size());
      storages_[rank].push_back({Buffer::kSend, slot, block, 0, 0});
      chunk(rank, key(rank, {MscclBuffer::kInput, 0}, slot)).value = Value{block, own, storage};
    }
  }
}

/// In place the input is a part of the output, or all of it.
uint64_t MscclValues::key(Rank rank, MscclPlace place, uint32_t offset) const {
  uint64_t number = uint64_t{place.first} + offset;
  MscclBuffer buffer = place.buffer;
  if (program_.in_place && buffer != MscclBuffer::kScratch) {
    const RankProgram& model = models_[rank];
    const uint64_t input = model.send_slots(shape_), output = model.recv_slots(shape_);
    const uint64_t own = static_cast<uint64_t>(rank) * model.cut;
    const uint64_t whole = static_cast<uint64_t>(shape_.ranks()) * model.cut;
    if (buffer == MscclBuffer::kInput && input < output && output == whole) number += own;
    if (buffer == MscclBuffer::kOutput && output < input && input == whole) number += own;
    buffer = MscclBuffer::kOutput;
  }
  return rank_of_buffer(buffer) << kBufferShift | number;
}

std::string MscclValues::name_chunk(uint64_t key) const {
  const char* const names[] = {"scratch", "output", "input", "temporary"};
  return fmt::format("chunk {} of the {}", key & UINT32_MAX, names[key >> kBufferShift]);
}

Status MscclValues::run(MscclOrder& order) {
  for (const StepHalf& half : order.halves()) {
    const MscclStep& step = program_.gpus[half.at.rank].blocks[half.at.block].steps[half.at.step];
    IBCOLL_TRY(check_bounds(half, step));
    order.enter(half);
    if (half.sends) {
      IBCOLL_TRY(do_sending(half, step, order));
    } else if (step.receives()) {
      IBCOLL_TRY(do_receiving(half, step, order));
    } else if (step.type != "nop") {
      IBCOLL_TRY(do_local(half, step, order));
    }
    order.leave(half);
  }
  return settle();
}

Status MscclValues::check_bounds(const StepHalf& half, const MscclStep& step) const {
  const MscclGpu& gpu = program_.gpus[half.at.rank];
  const RankProgram& model = models_[half.at.rank];
  const auto check = [&](MscclPlace place) -> Status {
    // In place a buffer that the file gives no size may still be named.
    const uint64_t input = std::max(gpu.input_chunks, model.send_slots(shape_));
    const uint64_t output = std::max(gpu.output_chunks, model.recv_slots(shape_));
    const uint64_t size = place.buffer == MscclBuffer::kScratch ? gpu.scratch_chunks
                          : place.buffer == MscclBuffer::kInput ? input
                                                                : output;
    if (uint64_t{place.first} + step.count <= size) return {};
    const char* const names[] = {"input", "output", "scratch"};
    return fail(ErrorCode::kInput, "{}: {} chunks from {} on are not in the {}, which has {}",
                name(half), step.count, place.first, names[static_cast<int>(place.buffer)], size);
  };
  if (step.reads()) IBCOLL_TRY(check(step.src));
  if (step.stores()) IBCOLL_TRY(check(step.dst));
  if (step.combines() && !reduces(model.collective))
    return fail(ErrorCode::kInput, "{}: {} combines nothing", name(half), program_.collective);
  return {};
}

Result<MscclValues::Value> MscclValues::read(const StepHalf& half, uint64_t key,
                                             const MscclOrder& order) {
  const auto rank = static_cast<Rank>(half.at.rank);
  Chunk& at = chunk(rank, key);
  if (!at.value) {
    return fail(ErrorCode::kInput, "{}: reads {} before anything is written there", name(half),
                name_chunk(key));
  }
  if (at.written && !order.has_happened(half, at.written->block, at.written->step)) {
    return fail(ErrorCode::kInput, "{}: reads {}, which {} may not have written yet", name(half),
                name_chunk(key), name_access(rank, *at.written));
  }
  const auto mine = std::find_if(at.read.begin(), at.read.end(), [&](const Access& access) {
    return access.block == half.at.block;
  });
  if (mine == at.read.end()) {
    at.read.push_back({half.at.block, half.at.step});
  } else {
    mine->step = half.at.step;
  }
  return *at.value;
}

Status MscclValues::check_write(const StepHalf& half, uint64_t key, const MscclOrder& order) {
  const auto rank = static_cast<Rank>(half.at.rank);
  const Chunk& at = chunk(rank, key);
  if (at.written && !order.has_happened(half, at.written->block, at.written->step)) {
    return fail(ErrorCode::kInput, "{}: writes {}, which {} may write afterwards", name(half),
                name_chunk(key), name_access(rank, *at.written));
  }
  for (const Access& access : at.read) {
    if (order.has_happened(half, access.block, access.step)) continue;
    return fail(ErrorCode::kInput, "{}: writes {}, which {} may not have read yet", name(half),
                name_chunk(key), name_access(rank, access));
  }
  return {};
}

void MscclValues::write(const StepHalf& half, uint64_t key, Value value) {
  Chunk& at = chunk(static_cast<Rank>(half.at.rank), key);
  at.value = std::move(value);
  at.written = Access{half.at.block, half.at.step};
  at.read.clear();
}

Result<MscclValues::Value> MscclValues::combine(const StepHalf& half, const Value& into,
                                                const Value& from) const {
  if (!(into.block == from.block)) {
    return fail(ErrorCode::kInput, "{}: combines {} with {}", name(half),
                describe(into.block, models_[half.at.rank]),
                describe(from.block, models_[half.at.rank]));
  }
  std::vector<Rank> parts(into.parts->size() + from.parts->size());
  std::merge(into.parts->begin(), into.parts->end(), from.parts->begin(), from.parts->end(),
             parts.begin());
  const auto twice = std::adjacent_find(parts.begin(), parts.end());
  if (twice != parts.end())
    return fail(ErrorCode::kInput, "{}: combines the data of rank {} twice", name(half), *twice);
  return Value{into.block, std::make_shared<const std::vector<Rank>>(std::move(parts)),
               into.storage};
}

uint32_t MscclValues::add_storage(Rank rank, const Block& block, uint64_t key) {
  Chunk& at = chunk(rank, key);
  storages_[rank].push_back({Buffer::kNone, 0, block, at.versions++, key});
  return static_cast<uint32_t>(storages_[rank].size() - 1);
}

void MscclValues::add_move(const StepHalf& half, Move::Kind kind, std::vector<uint32_t> dst,
                           std::vector<uint32_t> src) {
  const MscclStep& step = program_.gpus[half.at.rank].blocks[half.at.block].steps[half.at.step];
  moves_.push_back({kind, static_cast<Rank>(half.at.rank), -1, half.level, step.number,
                    std::move(src), std::move(dst)});
}

Status MscclValues::do_receiving(const StepHalf& half, const MscclStep& step, MscclOrder& order) {
  const auto rank = static_cast<Rank>(half.at.rank);
  const auto found = under_way_.find(half.message);
  const SentValues sent = std::move(found->second);
  under_way_.erase(found);
  std::vector<uint32_t> landed, own;
  std::vector<Value> results;
  for (uint32_t i = 0; i < step.count; ++i) {
    const uint64_t place =
        step.stores() ? key(rank, step.dst, i) : kTemporary << kBufferShift | temporaries_++;
    Value value = sent.values[i];
    std::optional<Value> mine;
    if (step.combines()) {
      IBCOLL_ASSIGN(mine, read(half, key(rank, step.src, i), order));
    }
    if (step.stores()) IBCOLL_TRY(check_write(half, place, order));
    value.storage = add_storage(rank, value.block, place);
    landed.push_back(value.storage);
    if (mine) {
      IBCOLL_ASSIGN(value, combine(half, value, *mine));
      own.push_back(mine->storage);
    }
    if (step.stores()) write(half, place, value);
    results.push_back(std::move(value));
  }
  moves_[sent.move].dst = landed;
  if (step.combines()) add_move(half, Move::Kind::kReduce, std::move(landed), std::move(own));
  if (step.sends()) passed_[{half.at.rank, half.at.block}] = std::move(results);
  return {};
}

Status MscclValues::do_sending(const StepHalf& half, const MscclStep& step, MscclOrder& order) {
  const auto rank = static_cast<Rank>(half.at.rank);
  SentValues sent;
  if (step.type == "s") {
    for (uint32_t i = 0; i < step.count; ++i) {
      IBCOLL_ASSIGN(sent.values.emplace_back(), read(half, key(rank, step.src, i), order));
    }
  } else {
    // As the other half has left it. What it has stored may be passed on from there.
    sent.values = std::move(passed_[{half.at.rank, half.at.block}]);
    for (uint32_t i = 0; step.stores() && i < step.count; ++i)
      IBCOLL_TRY(read(half, key(rank, step.dst, i), order));
  }
  std::vector<uint32_t> src;
  for (const Value& value : sent.values) src.push_back(value.storage);
  sent.move = moves_.size();
  add_move(half, Move::Kind::kMessage, {}, std::move(src));
  moves_.back().peer = static_cast<Rank>(program_.gpus[half.at.rank].blocks[half.at.block].send);
  under_way_.emplace(half.message, std::move(sent));
  return {};
}

/// Copies and reductions. What a reduction is into is not read any more: it may happen in place,
/// unless that is the send buffer.
Status MscclValues::do_local(const StepHalf& half, const MscclStep& step, MscclOrder& order) {
  const auto rank = static_cast<Rank>(half.at.rank);
  std::vector<uint32_t> to, from, copied, copies;
  std::vector<Value> results;
  for (uint32_t i = 0; i < step.count; ++i) {
    IBCOLL_ASSIGN(Value value, read(half, key(rank, step.src, i), order));
    const uint64_t place = key(rank, step.dst, i);
    from.push_back(value.storage);
    if (step.combines()) {
      IBCOLL_ASSIGN(Value into, read(half, place, order));
      const uint32_t before = into.storage;
      IBCOLL_ASSIGN(value, combine(half, into, value));
      if (storages_[rank][before].buffer == Buffer::kSend) {
        value.storage = add_storage(rank, value.block, place);
        copied.push_back(before);
        copies.push_back(value.storage);
      }
    } else {
      value.storage = add_storage(rank, value.block, place);
    }
    to.push_back(value.storage);
    results.push_back(std::move(value));
  }
  for (uint32_t i = 0; i < step.count; ++i) {
    IBCOLL_TRY(check_write(half, key(rank, step.dst, i), order));
    write(half, key(rank, step.dst, i), std::move(results[i]));
  }
  if (!copied.empty()) add_move(half, Move::Kind::kCopy, std::move(copies), std::move(copied));
  add_move(half, step.combines() ? Move::Kind::kReduce : Move::Kind::kCopy, std::move(to),
           std::move(from));
  return {};
}

/// What is in the output at the end goes to the receive buffer, the rest to scratch.
Status MscclValues::settle() {
  std::vector<Move> last;
  for (Rank rank = 0; rank < shape_.ranks(); ++rank) {
    const RankProgram& model = models_[rank];
    std::vector<Storage>& storages = storages_[rank];
    const uint32_t slots = model.recv_slots(shape_);
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const uint64_t place = key(rank, {MscclBuffer::kOutput, 0}, slot);
      const Chunk& at = chunk(rank, place);
      const Block meant = model.block(Buffer::kRecv, slot);
      const auto by = [&] {
        return at.written ? name_access(rank, *at.written) : fmt::format("rank {}", rank);
      };
      if (!at.value) {
        return fail(ErrorCode::kInput, "rank {}: nothing is ever written to {}, which is for {}",
                    rank, name_chunk(place), describe(meant, model));
      }
      if (!(at.value->block == meant)) {
        return fail(ErrorCode::kInput, "{}: leaves {} in {}, which is for {}", by(),
                    describe(at.value->block, model), name_chunk(place), describe(meant, model));
      }
      const Rank wanted =
          reduces(model.collective) ? contributors(model.collective, shape_, rank) : 0;
      for (Rank other = 0; other < wanted; ++other) {
        const auto& parts = *at.value->parts;
        if (std::binary_search(parts.begin(), parts.end(), other)) continue;
        return fail(ErrorCode::kInput, "{}: leaves {} without the data of rank {}", by(),
                    name_chunk(place), other);
      }
      Storage& storage = storages[at.value->storage];
      if (storage.buffer == Buffer::kNone) {
        storage.buffer = Buffer::kRecv;
        storage.slot = slot;
        continue;
      }
      if (last.empty() || last.back().rank != rank)
        last.push_back({Move::Kind::kCopy, rank, -1, 0, MscclStep::kUnknown, {}, {}});
      last.back().src.push_back(at.value->storage);
      last.back().dst.push_back(static_cast<uint32_t>(storages.size()));
      storages.push_back({Buffer::kRecv, slot, meant, 0, 0});
    }
    std::vector<Storage*> scratch;
    for (Storage& storage : storages) {
      if (storage.buffer == Buffer::kNone) scratch.push_back(&storage);
    }
    std::stable_sort(scratch.begin(), scratch.end(), [](const Storage* a, const Storage* b) {
      return std::pair(a->version, a->place) < std::pair(b->version, b->place);
    });
    for (uint32_t slot = 0; slot < scratch.size(); ++slot) {
      scratch[slot]->buffer = Buffer::kScratch;
      scratch[slot]->slot = slot;
    }
  }
  moves_.insert(moves_.begin(), last.begin(), last.end());
  return {};
}

}  // namespace ibcoll::formats
