#include "integrations/mpi/datatypes.h"

#include <algorithm>
#include <array>
#include <climits>
#include <mutex>

#include "integrations/mpi/copies.h"
#include "integrations/mpi/operators.h"

namespace ibcoll::mpi {

namespace {

/// Predefined datatypes, found by their handles.
class Predefined {
 public:
  void add(const Datatype& type) {
    size_t slot = slot_of(type.handle);
    while (slots_[slot].handle != 0) slot = (slot + 1) % kSlots;
    slots_[slot] = type;
  }
  const Datatype* find(Handle handle) const {
    for (size_t slot = slot_of(handle); slots_[slot].handle != 0; slot = (slot + 1) % kSlots)
      if (slots_[slot].handle == handle) return &slots_[slot];
    return nullptr;
  }

 private:
  static constexpr size_t kSlots = 256;
  static_assert(4 * std::extent_v<decltype(ibcoll_mpi_constants::types)> <= kSlots);
  static size_t slot_of(Handle handle) {
    return static_cast<size_t>(handle * 0x9e3779b97f4a7c15 >> 56);
  }
  std::array<Datatype, kSlots> slots_ = {};
};

Predefined& predefined() {
  static auto* const all = new Predefined;
  return *all;
}
int g_keyval = 0;

/// As C lays values with an index out.
template <class Value>
struct Indexed {
  Value value;
  int index;
};

/// What the engine combines elements of a kind and length as.
std::optional<ibcoll_type> engine_type(ibcoll_mpi_kind kind, Count size, Count extent) {
  const auto of_length = [size](std::initializer_list<std::pair<Count, ibcoll_type>> types)
      -> std::optional<ibcoll_type> {
    for (const auto& [length, type] : types)
      if (length == size) return type;
    return std::nullopt;
  };
  const auto laid_out_as = [extent](size_t bytes, ibcoll_type type) -> std::optional<ibcoll_type> {
    if (extent != static_cast<Count>(bytes)) return std::nullopt;
    return type;
  };
  switch (kind) {
    case IBCOLL_MPI_SIGNED:
      return of_length({{1, IBCOLL_INT8}, {2, IBCOLL_INT16}, {4, IBCOLL_INT32}, {8, IBCOLL_INT64}});
    case IBCOLL_MPI_UNSIGNED:
      return of_length(
          {{1, IBCOLL_UINT8}, {2, IBCOLL_UINT16}, {4, IBCOLL_UINT32}, {8, IBCOLL_UINT64}});
    case IBCOLL_MPI_FLOAT:
      return of_length({{4, IBCOLL_FLOAT}, {8, IBCOLL_DOUBLE}});
    case IBCOLL_MPI_LONG_DOUBLE:
      return of_length({{sizeof(long double), IBCOLL_LONG_DOUBLE}});
    case IBCOLL_MPI_COMPLEX:
      return of_length({{8, IBCOLL_FLOAT_COMPLEX}, {16, IBCOLL_DOUBLE_COMPLEX}});
    case IBCOLL_MPI_LONG_DOUBLE_COMPLEX:
      return of_length({{2 * sizeof(long double), IBCOLL_LONG_DOUBLE_COMPLEX}});
    case IBCOLL_MPI_BOOL:
      return of_length({{sizeof(bool), IBCOLL_BOOL}});
    case IBCOLL_MPI_BITS:
      return of_length({{1, IBCOLL_BYTE}});
    case IBCOLL_MPI_FLOAT_INT:
      return laid_out_as(sizeof(Indexed<float>), IBCOLL_FLOAT_INT);
    case IBCOLL_MPI_DOUBLE_INT:
      return laid_out_as(sizeof(Indexed<double>), IBCOLL_DOUBLE_INT);
    case IBCOLL_MPI_LONG_INT:
      return laid_out_as(sizeof(Indexed<long>), IBCOLL_LONG_INT);
    case IBCOLL_MPI_INT_INT:
      return laid_out_as(sizeof(Indexed<int>), IBCOLL_INT_INT);
    case IBCOLL_MPI_SHORT_INT:
      return laid_out_as(sizeof(Indexed<short>), IBCOLL_SHORT_INT);
    case IBCOLL_MPI_LONG_DOUBLE_INT:
      return laid_out_as(sizeof(Indexed<long double>), IBCOLL_LONG_DOUBLE_INT);
    case IBCOLL_MPI_OPAQUE:
      break;
  }
  return std::nullopt;
}

/// Nobody may free such a datatype. Those of Fortran's kinds say how they were asked for.
bool is_named(Handle type) {
  const Library& mpi = library();
  const auto names = [&](int combiner) {
    return combiner == mpi.constants.combiner_named ||
           combiner == mpi.constants.combiner_f90_real ||
           combiner == mpi.constants.combiner_f90_complex ||
           combiner == mpi.constants.combiner_f90_integer;
  };
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  if (mpi.Type_get_envelope_c == nullptr)
    return mpi.Type_get_envelope(type, &integers, &addresses, &types, &combiner) == 0 &&
           names(combiner);
  Count many_integers = 0, many_addresses = 0, many_counts = 0, many_types = 0;
  return mpi.Type_get_envelope_c(type, &many_integers, &many_addresses, &many_counts, &many_types,
                                 &combiner) == 0 &&
         names(combiner);
}

/// The MPI refuses to pack one that is not; nobody hears of it by `job.alone`.
bool is_committed(const Job& job, Handle type) {
  std::byte nothing{};
  int position = 0;
  return library().Pack(&nothing, 0, type, &nothing, 1, &position, job.alone) == 0;
}

Datatype describe(Handle type) {
  const Library& mpi = library();
  Datatype described;
  described.handle = type;
  Count lower = 0;
  mpi.Type_size_x(type, &described.size);
  mpi.Type_get_extent_x(type, &lower, &described.extent);
  return described;
}

/// What the attribute of a derived datatype is.
struct Derived : Datatype {
  std::mutex mutex;
  std::weak_ptr<const Datatype> kept;
};

/// Lengths alone do not say so: parts may stand in another order.
bool lies_side_by_side(const Datatype& type) {
  return type.strides && type.strides->is_one_run() && type.strides->offset == 0 &&
         type.strides->run == type.extent;
}

int forget_type(Handle, int, void* attribute, void*) {
  const auto* const type = static_cast<Derived*>(attribute);
  forget_combinations_of(type->handle);
  delete type;
  return 0;
}

/// Elements that the MPI packs at once: it counts bytes in ints. 0: not even one; nor does MPICH
/// from or to MPI_BOTTOM.
Count at_once(const Datatype& type, const void* at) {
  constexpr Count kMost = Count{1} << 30;
  if (type.size > INT_MAX || at == nullptr) return 0;
  return std::max<Count>(kMost / std::max<Count>(type.size, 1), 1);
}

/// Handles in an array, as the MPI has them.
std::array<Handle, 2> handles(Handle first, Handle second) {
  constexpr uintptr_t kHalf = UINT32_MAX;
  if (library().constants.handle_mask != kHalf) return {first, second};
  return {first | second << 32, 0};
}

/// A datatype of so many bytes side by side, more than an int counts; 0: the MPI gives none.
Handle make_bytes(Count bytes) {
  constexpr int kBlock = 1 << 30;
  const Library& mpi = library();
  const Handle byte = mpi.constants.type_byte;
  const std::array<int, 2> lengths = {static_cast<int>(bytes / kBlock),
                                      static_cast<int>(bytes % kBlock)};
  const std::array<Count, 2> places = {0, bytes - lengths[1]};
  Handle block = 0, made = 0;
  if (mpi.Type_contiguous(kBlock, byte, &block) != 0) return 0;
  const std::array<Handle, 2> types = handles(mpi.clean(block), byte);
  if (mpi.Type_create_struct(2, lengths.data(), places.data(), types.data(), &made) != 0) made = 0;
  mpi.Type_free(&block);
  if (made != 0) mpi.Type_commit(&made);
  return made;
}

/// Elements, of which none can be packed, to or from bytes side by side.
template <class Copy>
bool copy_each(Count elements, const Datatype& type, const Copy& copy) {
  Handle bytes = make_bytes(type.size);
  bool good = bytes != 0;
  for (Count i = 0; good && i < elements; ++i) good = copy(i * type.extent, i * type.size, bytes);
  if (bytes != 0) library().Type_free(&bytes);
  return good;
}

}  // namespace

bool begin_datatypes(const Job& job) {
  const Library& mpi = library();
  for (size_t i = 0; i < mpi.constants.type_count; ++i) {
    const ibcoll_mpi_type& given = mpi.constants.types[i];
    if (predefined().find(given.handle) != nullptr) continue;
    // What this MPI names, but lacks: to ask for its length may be an error that ends the program.
    if (!is_committed(job, given.handle)) continue;
    Datatype type = describe(given.handle);
    if (type.size <= 0) continue;
    type.contiguous = type.size == type.extent;
    type.reduces = engine_type(given.kind, type.size, type.extent);
    predefined().add(type);
  }
  return mpi.Type_create_keyval(copy_nothing, forget_type, &g_keyval, nullptr) == 0;
}

void end_datatypes() { library().Type_free_keyval(&g_keyval); }

const Datatype* find_datatype(const Job& job, Handle given) {
  const Library& mpi = library();
  const Handle type = mpi.clean(given);
  if (const Datatype* const known = predefined().find(type)) [[likely]]
    return known;
  if (type == mpi.constants.type_null) return nullptr;
  // First, as to ask what is no datatype for an attribute is an error for MPI_COMM_WORLD's handler.
  if (!is_committed(job, type)) return nullptr;
  Derived* attribute = nullptr;
  int found = 0;
  if (mpi.Type_get_attr(type, g_keyval, &attribute, &found) != 0) return nullptr;
  if (found != 0) return attribute;
  // Several threads may come with a datatype that is new: what one has set none may replace, as the
  // others use it.
  static std::mutex making;
  const std::lock_guard lock(making);
  if (mpi.Type_get_attr(type, g_keyval, &attribute, &found) != 0) return nullptr;
  if (found != 0) return attribute;
  attribute = new Derived;
  static_cast<Datatype&>(*attribute) = describe(type);
  attribute->derived = true;
  attribute->strides = strides_of(type);
  attribute->contiguous = lies_side_by_side(*attribute);
  if (mpi.Type_set_attr(type, g_keyval, attribute) == 0) return attribute;
  delete attribute;
  return nullptr;
}

std::shared_ptr<const Datatype> kept_datatype(const Datatype& type) {
  auto& known = const_cast<Derived&>(static_cast<const Derived&>(type));
  const std::lock_guard lock(known.mutex);
  if (std::shared_ptr<const Datatype> kept = known.kept.lock()) return kept;
  Handle again = 0;
  // Not a duplicate, which has the program's attributes copied.
  if (library().Type_contiguous(1, type.handle, &again) != 0) return nullptr;
  library().Type_commit(&again);
  const std::shared_ptr<Datatype> made(new Datatype(type), [](Datatype* gone) {
    library().Type_free(&gone->handle);
    delete gone;
  });
  made->handle = library().clean(again);
  known.kept = made;
  return made;
}

bool is_predefined(Handle type) { return predefined().find(type) != nullptr || is_named(type); }

std::optional<ibcoll_operator> find_operator(const Datatype& type, Handle given) {
  if (!type.reduces) return std::nullopt;
  const Library& mpi = library();
  const Handle op = mpi.clean(given);
  for (size_t i = 0; i < mpi.constants.operator_count; ++i) {
    if (mpi.constants.operators[i].handle != op) continue;
    const auto known = static_cast<ibcoll_operator>(mpi.constants.operators[i].op);
    if (is_for_accumulate(known)) return std::nullopt;
    return ibcoll_has_operator(*type.reduces, known) != 0 ? std::optional(known) : std::nullopt;
  }
  return std::nullopt;
}

bool pack(const Job& job, const void* from, Count elements, const Datatype& type, std::byte* to) {
  const Count most = at_once(type, from);
  const auto* source = static_cast<const std::byte*>(from);
  if (most == 0) {
    return copy_each(elements, type, [&](Count at, Count packed, Handle bytes) {
      return copy_long(job, source + at, type.handle, to + packed, bytes);
    });
  }
  while (elements > 0) {
    const Count now = std::min(elements, most);
    int position = 0;
    if (library().Pack(source, static_cast<int>(now), type.handle, to,
                       static_cast<int>(now * type.size), &position, job.alone) != 0)
      return false;
    source += now * type.extent;
    to += now * type.size;
    elements -= now;
  }
  return true;
}

bool unpack(const Job& job, const std::byte* from, void* to, Count elements, const Datatype& type) {
  const Count most = at_once(type, to);
  auto* target = static_cast<std::byte*>(to);
  if (most == 0) {
    return copy_each(elements, type, [&](Count at, Count packed, Handle bytes) {
      return copy_long(job, from + packed, bytes, target + at, type.handle);
    });
  }
  while (elements > 0) {
    const Count now = std::min(elements, most);
    int position = 0;
    if (library().Unpack(from, static_cast<int>(now * type.size), &position, target,
                         static_cast<int>(now), type.handle, job.alone) != 0)
      return false;
    from += now * type.size;
    target += now * type.extent;
    elements -= now;
  }
  return true;
}

}  // namespace ibcoll::mpi
