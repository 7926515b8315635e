#include "integrations/mpi/strides.h"

#include <algorithm>
#include <numeric>

#include "engine/base/strided_copy.h"
#include "integrations/mpi/datatypes.h"

namespace ibcoll::mpi {

namespace {

/// How a datatype was made: what it was given, in the order of MPI_Type_get_contents.
struct Making {
  int combiner = 0;
  std::vector<int> integers;
  std::vector<Count> addresses;
  std::vector<Count> counts;   ///< MPICH's, where it was made with large counts
  std::vector<Handle> inners;  ///< what it is made of; freed with this unless predefined

  ~Making() {
    for (Handle inner : inners)
      if (!is_predefined(inner)) library().Type_free(&inner);
  }
};

/// MPICH says nothing of types with large counts but by the functions that end with _c. false: the
/// MPI does not say.
bool look_at(Handle type, Making& making) {
  const Library& mpi = library();
  Count integers = 0, addresses = 0, counts = 0, types = 0;
  if (mpi.Type_get_envelope_c != nullptr && mpi.Type_get_contents_c != nullptr) {
    if (mpi.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &making.combiner) !=
        0)
      return false;
  } else {
    int few_integers = 0, few_addresses = 0, few_types = 0;
    if (mpi.Type_get_envelope(type, &few_integers, &few_addresses, &few_types, &making.combiner) !=
        0)
      return false;
    integers = few_integers;
    addresses = few_addresses;
    types = few_types;
  }
  if (making.combiner == mpi.constants.combiner_named) return true;
  making.integers.resize(static_cast<size_t>(integers));
  making.addresses.resize(static_cast<size_t>(addresses));
  making.counts.resize(static_cast<size_t>(counts));
  std::vector<Handle> inners(static_cast<size_t>(types));
  const int told =
      mpi.Type_get_contents_c != nullptr
          ? mpi.Type_get_contents_c(type, integers, addresses, counts, types,
                                    making.integers.data(), making.addresses.data(),
                                    making.counts.data(), inners.data())
          : mpi.Type_get_contents(type, static_cast<int>(integers), static_cast<int>(addresses),
                                  static_cast<int>(types), making.integers.data(),
                                  making.addresses.data(), inners.data());
  if (told != 0) return false;
  for (int i = 0; i < static_cast<int>(inners.size()); ++i)
    making.inners.push_back(mpi.handle_at(inners.data(), i));
  return true;
}

Count extent_of(Handle type) {
  Count lower = 0, extent = 0;
  library().Type_get_extent_x(type, &lower, &extent);
  return extent;
}

std::optional<Strides> of_named(Handle type) {
  const Library& mpi = library();
  Strides made;
  Count true_extent = 0;
  mpi.Type_size_x(type, &made.run);
  mpi.Type_get_true_extent_x(type, &made.offset, &true_extent);
  if (made.run == 0 || made.run != true_extent) return std::nullopt;
  return made;
}

/// `count` blocks of `length` elements, `stride` bytes apart.
std::optional<Strides> vector_of(Strides element, Count extent, Count count, Count length,
                                 Count stride) {
  element.repeat(length, extent);
  element.repeat(count, stride);
  return element;
}

std::optional<Strides> subarray_of(Strides element, Count extent, const Making& making) {
  const auto dimensions = static_cast<size_t>(making.integers[0]);
  const bool large = !making.counts.empty();
  const bool of_c = making.integers[large ? 1 : 1 + 3 * dimensions] == library().constants.order_c;
  const auto number = [&](size_t which, size_t dimension) -> Count {
    const size_t at = which * dimensions + dimension;
    return large ? making.counts[at] : making.integers[1 + at];
  };
  Count stride = extent;
  for (size_t i = 0; i < dimensions; ++i) {
    const size_t dimension = of_c ? dimensions - 1 - i : i;
    element.repeat(number(1, dimension), stride);
    element.offset += number(2, dimension) * stride;
    stride *= number(0, dimension);
  }
  return element;
}

/// A list of parts one after the other: as long as they adjoin, or are alike and lie evenly.
class Parts {
 public:
  void add(const Strides& part) {
    if (parts_ == 0) {
      first_ = part;
      parts_ = 1;
    } else if (parts_ == 1 && first_.is_one_run() && part.is_one_run() &&
               part.offset == first_.offset + first_.run) {
      first_.run += part.run;
    } else if (part.run != first_.run || part.loops != first_.loops) {
      even_ = false;
    } else {
      if (parts_ == 1) step_ = part.offset - first_.offset;
      even_ = even_ && part.offset == first_.offset + parts_ * step_;
      ++parts_;
    }
  }
  std::optional<Strides> all() {
    if (!even_ || parts_ == 0) return std::nullopt;
    first_.repeat(parts_, step_);
    return first_;
  }

 private:
  Strides first_;
  Count parts_ = 0, step_ = 0;
  bool even_ = true;
};

/// (H)indexed, (h)indexed blocks and structs.
std::optional<Strides> list_of(const Making& making) {
  const ibcoll_mpi_constants& mpi = library().constants;
  if (!making.counts.empty() || making.integers.empty()) return std::nullopt;
  const auto parts = static_cast<size_t>(making.integers[0]);
  const bool equal = making.combiner == mpi.combiner_indexed_block ||
                     making.combiner == mpi.combiner_hindexed_block;
  const size_t first_place = 1 + (equal ? 1 : parts);
  Parts list;
  std::optional<Strides> element;
  Count extent = 0;
  for (size_t i = 0; i < parts; ++i) {
    if (i < making.inners.size()) {
      element = strides_of(making.inners[i]);
      extent = extent_of(making.inners[i]);
    }
    const int length = making.integers[equal ? 1 : 1 + i];
    if (length == 0) continue;
    if (!element) return std::nullopt;
    Strides part = *element;
    part.repeat(length, extent);
    part.offset +=
        making.addresses.empty() ? making.integers[first_place + i] * extent : making.addresses[i];
    list.add(part);
  }
  return list.all();
}

}  // namespace

void Strides::repeat(Count count, Count stride) {
  if (count == 1) return;
  if (loops.empty() && stride == run)
    run *= count;
  else if (!loops.empty() && stride == loops.back().count * loops.back().stride)
    loops.back().count *= count;
  else
    loops.push_back({count, stride});
}

std::optional<Strides> strides_of(Handle type) {
  const ibcoll_mpi_constants& mpi = library().constants;
  Count bytes = 0;
  library().Type_size_x(type, &bytes);
  Making making;
  if (bytes <= 0 || !look_at(type, making)) return std::nullopt;
  if (making.combiner == mpi.combiner_named) return of_named(type);
  const bool lists =
      making.combiner == mpi.combiner_indexed || making.combiner == mpi.combiner_hindexed ||
      making.combiner == mpi.combiner_indexed_block ||
      making.combiner == mpi.combiner_hindexed_block || making.combiner == mpi.combiner_struct;
  if (lists) return list_of(making);
  if (making.inners.size() != 1) return std::nullopt;
  const Count extent = extent_of(making.inners[0]);
  std::optional<Strides> element = strides_of(making.inners[0]);
  if (!element) return std::nullopt;
  const auto number = [&](size_t at) -> Count {
    return making.counts.empty() ? making.integers[at] : making.counts[at];
  };
  if (making.combiner == mpi.combiner_dup || making.combiner == mpi.combiner_resized)
    return element;
  if (making.combiner == mpi.combiner_contiguous) {
    element->repeat(number(0), extent);
    return element;
  }
  if (making.combiner == mpi.combiner_vector)
    return vector_of(*element, extent, number(0), number(1), number(2) * extent);
  if (making.combiner == mpi.combiner_hvector) {
    const Count stride = making.counts.empty() ? making.addresses[0] : making.counts[2];
    return vector_of(*element, extent, number(0), number(1), stride);
  }
  if (making.combiner == mpi.combiner_subarray) return subarray_of(*element, extent, making);
  return std::nullopt;
}

std::optional<ibcoll_block> block_of(const Datatype& type, Count offset, Count elements) {
  if (elements == 0 || type.size == 0) return ibcoll_block_contiguous(0, 0);
  if (type.contiguous) return ibcoll_block_contiguous(offset, elements * type.size);
  if (!type.strides || type.strides->loops.size() > 2) return std::nullopt;
  const std::vector<Strides::Loop>& loops = type.strides->loops;
  ibcoll_block block = ibcoll_block_contiguous(offset + type.strides->offset, type.strides->run);
  if (!loops.empty()) {
    block.count = loops[0].count;
    block.stride = loops[0].stride;
  }
  if (loops.size() == 2) {
    block.outer_count = loops[1].count;
    block.outer_stride = loops[1].stride;
  }
  if (elements > 1) {
    const Count extent = type.extent;
    if (loops.empty()) {
      block.count = elements;
      block.stride = extent;
    } else if (loops.size() == 1 && extent == block.count * block.stride) {
      block.count *= elements;
    } else if (loops.size() == 1) {
      block.outer_count = elements;
      block.outer_stride = extent;
    } else if (extent == block.outer_count * block.outer_stride) {
      block.outer_count *= elements;
    } else {
      return std::nullopt;
    }
  }
  // The engine refuses to receive such blocks, on this rank alone.
  const bool overlaps = overlaps_itself({.run = static_cast<uint64_t>(block.bytes),
                                         .count = static_cast<uint64_t>(block.count),
                                         .stride = block.stride,
                                         .outer_count = static_cast<uint64_t>(block.outer_count),
                                         .outer_stride = block.outer_stride});
  return overlaps ? std::nullopt : std::optional(block);
}

}  // namespace ibcoll::mpi
