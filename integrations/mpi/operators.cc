// Reductions that the engine has no loop for: by operators of the program's own, and by predefined
// ones on types like LOGICAL. The MPI combines the elements, by MPI_Reduce_local: so it does not
// matter whether an operator is a function of C or of Fortran, and functions get the datatype that
// the program has passed.

#include "integrations/mpi/operators.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "integrations/mpi/stand_in.h"
#include "integrations/mpi/under_way.h"

namespace ibcoll::mpi {

namespace {

constexpr Count kMostElementBytes = 4 << 20;  // of ibcoll_operator_description

/// One of the program's operators. It is the MPI's until the last combination with it has gone.
struct Operator {
  Handle handle;
  bool freed = false;  ///< by the program
  int uses = 0;        ///< by combinations that there are
};

using Pair = std::pair<Handle, Handle>;  // operator, datatype

struct Records {
  std::mutex mutex;
  std::map<Handle, Operator*> operators;
  std::map<Pair, Combination> combinations;
  std::vector<ibcoll_operator> retired;  ///< of datatypes that were freed
  std::vector<Handle> unused;            ///< operators that were freed, and are used no more
  std::atomic<uint64_t> gone{0};  ///< how often one has: what threads remember does not count
};

Records& records() {
  static auto* const all = new Records;  // the MPI may delete attributes when the process ends
  return *all;
}

/// Elements with gaps, in memory as the program's functions expect them.
class Spread {
 public:
  explicit Spread(const Datatype& type) : type_(type) {
    constexpr Count kBytes = 32 << 10;
    Count lower = 0, bytes = 0;
    library().Type_get_true_extent_x(type.handle, &lower, &bytes);
    const Count step = type.extent < 0 ? -type.extent : type.extent;
    most_ = step == 0 ? 1 : std::max<Count>(kBytes / step, 1);
    const Count lowest = std::min<Count>((most_ - 1) * type.extent, 0) + lower;
    memory_.resize(static_cast<size_t>((most_ - 1) * step + bytes) + 2 * kLine);
    // Elements are as aligned as in an array of the program's.
    auto* const begin = memory_.data() - lowest;
    first_ = begin + (kLine - reinterpret_cast<uintptr_t>(begin) % kLine);
  }
  Count most() const { return most_; }
  std::byte* first() { return first_; }
  bool take(const Job& job, const std::byte* packed, Count elements) {
    return unpack(job, packed, first_, elements, type_);
  }
  bool give(const Job& job, std::byte* packed, Count elements) const {
    return pack(job, first_, elements, type_, packed);
  }

 private:
  static constexpr size_t kLine = 64;
  const Datatype type_;
  Count most_ = 1;
  std::vector<std::byte> memory_;
  std::byte* first_ = nullptr;
};

/// What the engine's operator is handed back.
struct Pairing {
  const Job& job;
  Operator& op;
  const Datatype type;
  std::optional<Spread> from, to;  ///< where elements have gaps
};

constexpr const char* kFailure = "MPI_Reduce_local has failed";

bool reduce_local(const Pairing& pairing, const void* source, void* target, Count elements) {
  return library().Reduce_local(source, target, static_cast<int>(elements), pairing.type.handle,
                                pairing.op.handle) == 0;
}

/// As MPI's functions: target = source op target.
const char* combine(void* target, const void* source, size_t elements, void* context) {
  Pairing& pairing = *static_cast<Pairing*>(context);
  const Inside inside;  // the engine may call this on a thread of its own
  auto* to = static_cast<std::byte*>(target);
  const auto* from = static_cast<const std::byte*>(source);
  const Count most = pairing.from ? pairing.from->most() : Count{1} << 30;
  for (auto left = static_cast<Count>(elements); left > 0;) {
    const Count now = std::min(left, most);
    if (!pairing.from) {
      if (!reduce_local(pairing, from, to, now)) return kFailure;
    } else {
      const bool good = pairing.from->take(pairing.job, from, now) &&
                        pairing.to->take(pairing.job, to, now) &&
                        reduce_local(pairing, pairing.from->first(), pairing.to->first(), now) &&
                        pairing.to->give(pairing.job, to, now);
      if (!good) return kFailure;
    }
    from += now * pairing.type.size;
    to += now * pairing.type.size;
    left -= now;
  }
  return nullptr;
}

/// Nobody combines by the pair any more. Not the place to call the MPI.
void release(void* context) {
  auto* const pairing = static_cast<Pairing*>(context);
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  Operator& op = pairing->op;
  if (--op.uses == 0 && op.freed) {
    all.unused.push_back(op.handle);
    delete &op;
  }
  delete pairing;
}

/// Without the lock, as both call release() or the MPI.
void free_retired(const Job& job) {
  std::vector<ibcoll_operator> retired;
  std::vector<Handle> unused;
  Records& all = records();
  {
    const std::lock_guard lock(all.mutex);
    retired.swap(all.retired);
  }
  // Calls that wait for the engine name operators, which those that it has keep.
  if (!retired.empty()) post_all();
  for (const ibcoll_operator op : retired) (void)ibcoll_operator_free(job.context, op);
  {
    const std::lock_guard lock(all.mutex);
    unused.swap(all.unused);
  }
  for (Handle op : unused) library().Op_free(&op);
}

const ibcoll_mpi_operator* find_predefined(Handle op) {
  const ibcoll_mpi_constants& mpi = library().constants;
  const auto* const end = mpi.operators + mpi.operator_count;
  const auto* const found =
      std::find_if(mpi.operators, end, [op](const auto& each) { return each.handle == op; });
  return found == end ? nullptr : found;
}

/// Whether the MPI combines such elements: it would say if it did not, as nobody hears.
bool is_allowed(const Job& job, const Datatype& type, Handle op) {
  static std::mutex one_at_a_time;  // collectives of one communicator
  const std::lock_guard lock(one_at_a_time);
  std::byte from{}, to{};
  return library().Allreduce(&from, &to, 0, type.handle, op, job.alone) == 0;
}

/// Nothing: the pair stays with the MPI. Else whether the operator commutes.
std::optional<bool> may_combine(const Job& job, const Datatype& type, Handle op) {
  const Library& mpi = library();
  if (type.size < 1 || type.size > kMostElementBytes || op == mpi.constants.op_null)
    return std::nullopt;
  int commutes = 1;
  if (const ibcoll_mpi_operator* const predefined = find_predefined(op)) {
    const auto known = static_cast<ibcoll_operator>(predefined->op);
    if (is_for_accumulate(known) || !is_predefined(type.handle)) return std::nullopt;
  }
  if (!is_allowed(job, type, op) || mpi.Op_commutative(op, &commutes) != 0) return std::nullopt;
  return commutes != 0;
}

Operator& use(Handle op) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  Operator*& known = all.operators[op];
  if (known == nullptr) known = new Operator{op};
  ++known->uses;
  return *known;
}

/// Without the lock, which calls of the engine on other threads take amid theirs (release()).
FoundCombination make(const Job& job, const Datatype& type, Handle op) {
  const std::optional<bool> commutes = may_combine(job, type, op);
  if (!commutes) return {};
  auto* const pairing = new Pairing{job, use(op), type, std::nullopt, std::nullopt};
  try {
    if (!type.contiguous) {
      pairing->from.emplace(type);
      pairing->to.emplace(type);
    }
  } catch (const std::bad_alloc&) {  // of elements with wide gaps
    release(pairing);
    return {std::nullopt, IBCOLL_ERR_NO_MEMORY};
  }
  ibcoll_operator_description description = IBCOLL_OPERATOR_DESCRIPTION_INIT;
  description.element_bytes = static_cast<size_t>(type.size);
  description.combine_reversed = combine;
  description.context = pairing;
  description.release = release;
  description.commutes = *commutes ? 1 : 0;
  Combination made;
  made.packs = !type.contiguous;
  const ibcoll_status status = ibcoll_operator_create(job.context, &description, &made.op);
  if (status != IBCOLL_OK) {
    release(pairing);
    return {std::nullopt, status};
  }
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  const auto [known, is_new] = all.combinations.emplace(Pair{op, type.handle}, made);
  if (!is_new) all.retired.push_back(made.op);  // another thread was faster
  return {known->second, IBCOLL_OK};
}

/// What a thread has combined by last.
struct Latest {
  Pair pair;
  uint64_t gone;
  Combination combination;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Latest g_latest = {};

FoundCombination find_own(const Job& job, const Datatype& type, Handle op) {
  Records& all = records();
  const Pair pair{op, type.handle};
  const uint64_t gone = all.gone.load(std::memory_order_acquire);
  if (g_latest.pair == pair && g_latest.gone == gone) return {g_latest.combination, IBCOLL_OK};
  FoundCombination found;
  bool retired = false;
  {
    const std::lock_guard lock(all.mutex);
    const auto known = all.combinations.find(pair);
    if (known != all.combinations.end()) found.combination = known->second;
    retired = !all.retired.empty() || !all.unused.empty();
  }
  if (!found.combination) found = make(job, type, op);
  if (retired) free_retired(job);
  if (found.combination) g_latest = {pair, gone, *found.combination};
  return found;
}

/// What the program has freed goes from the records; with the lock held.
template <class Gone>
void retire(Records& all, const Gone& is_gone) {
  for (auto each = all.combinations.begin(); each != all.combinations.end();) {
    if (!is_gone(each->first)) {
      ++each;
      continue;
    }
    all.retired.push_back(each->second.op);
    each = all.combinations.erase(each);
    ++all.gone;
  }
}

/// false: the MPI is to free it, as nothing here uses it. `nested`: amid a call of the engine, such
/// as in an error handler: what is made for it goes with the next operator.
bool free_operator(const Job& job, Handle op, bool nested) {
  if (find_predefined(op) != nullptr) return false;
  Records& all = records();
  {
    const std::lock_guard lock(all.mutex);
    const auto known = all.operators.find(op);
    if (known == all.operators.end()) return false;
    Operator* const record = known->second;
    all.operators.erase(known);
    record->freed = true;
    if (record->uses == 0) {
      delete record;
      return false;
    }
    retire(all, [op](const Pair& pair) { return pair.first == op; });
  }
  if (!nested) free_retired(job);
  return true;
}

}  // namespace

FoundCombination find_combination(const Job& job, const Datatype& type, Handle given) {
  const Handle op = library().clean(given);
  if (const auto of_engine = find_operator(type, op)) [[likely]]
    return {Combination{*type.reduces, *of_engine, false}, IBCOLL_OK};
  return find_own(job, type, op);
}

void forget_combinations_of(Handle type) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  retire(all, [type](const Pair& pair) { return pair.second == type; });
}

void end_operators(const Job& job) {
  if (job.context == nullptr) return;
  {
    Records& all = records();
    const std::lock_guard lock(all.mutex);
    retire(all, [](const Pair&) { return true; });
  }
  free_retired(job);
}

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

IBCOLL_MPI_STANDS_IN(Op_free, (void* op), {
  static auto* const original = original_of<int(void*)>("PMPI_Op_free");
  Job* const job = running_job();
  if (job == nullptr || job->context == nullptr || op == nullptr) return original(op);
  const bool nested = Inside::is();
  const Inside inside;
  if (!free_operator(*job, library().handle_at(op, 0), nested)) return original(op);
  library().write(op, library().constants.op_null);
  return 0;
})
