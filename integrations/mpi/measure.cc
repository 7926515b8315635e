// Calls of all functions and sizes that can be measured, made for the sake of that: ib_info --mpi
// --measure. What comes of them is written where IBCOLL_LEARNED says.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "integrations/mpi/communicators.h"
#include "integrations/mpi/job.h"
#include "integrations/mpi/sampling.h"
#include "integrations/mpi/size_class.h"
#include "integrations/mpi/stand_in.h"

// This library's own, which begin the job and choose who carries a call out.
extern "C" {
using ibcoll::mpi::Handle;
int MPI_Init(int*, char***);
int MPI_Finalize();
int MPI_Comm_dup(Handle, Handle*);
int MPI_Comm_free(Handle*);
int MPI_Alltoall(const void*, int, Handle, void*, int, Handle, Handle);
int MPI_Allgather(const void*, int, Handle, void*, int, Handle, Handle);
int MPI_Allgatherv(const void*, int, Handle, void*, const int*, const int*, Handle, Handle);
int MPI_Gather(const void*, int, Handle, void*, int, Handle, int, Handle);
int MPI_Scatter(const void*, int, Handle, void*, int, Handle, int, Handle);
int MPI_Bcast(void*, int, Handle, int, Handle);
int MPI_Barrier(Handle);
int MPI_Reduce(const void*, void*, int, Handle, Handle, int, Handle);
int MPI_Allreduce(const void*, void*, int, Handle, Handle, Handle);
int MPI_Reduce_scatter(const void*, void*, const int*, Handle, Handle, Handle);
int MPI_Reduce_scatter_block(const void*, void*, int, Handle, Handle, Handle);
int MPI_Scan(const void*, void*, int, Handle, Handle, Handle);
int MPI_Exscan(const void*, void*, int, Handle, Handle, Handle);
}

namespace ibcoll::mpi {

namespace {

/// How long calls of a kind may take once each candidate has been looked at, and how many there are
/// at most.
constexpr double kMoreSeconds = 0.2;
constexpr uint64_t kMostCalls = 4096;
/// Of the buffers of a rank.
constexpr uint64_t kMostMemory = uint64_t{512} << 20;

/// What reductions combine.
struct Elements {
  Handle type = 0, op = 0;
  int bytes = 0;
};

Handle float_of(int bytes) {
  const Library& mpi = library();
  for (size_t i = 0; i < mpi.constants.type_count; ++i) {
    Count size = 0;
    const ibcoll_mpi_type& each = mpi.constants.types[i];
    if (each.kind == IBCOLL_MPI_FLOAT && mpi.Type_size_x(each.handle, &size) == 0 && size == bytes)
      return each.handle;
  }
  return mpi.constants.type_null;
}

/// `exact`: such that the same bits come of it whoever combines. No bytes: there are none so short.
Elements elements_of(uint64_t bytes, bool exact) {
  const ibcoll_mpi_constants& mpi = library().constants;
  const int each = bytes >= sizeof(double) ? sizeof(double) : sizeof(float);
  if (!exact) return {float_of(each), mpi.op_sum, bytes < sizeof(float) ? 0 : each};
  if (each == sizeof(uint64_t)) return {mpi.type_uint64, mpi.op_sum, each};
  return {mpi.type_byte, mpi.op_band, 1};
}

/// One rank's buffers, and its part in the calls.
class Caller {
 public:
  Caller(Handle comm, int rank, int size, bool exact)
      : comm_(comm), rank_(rank), size_(size), exact_(exact) {}

  /// Has buffers for calls of that size. false: there are no such calls.
  bool prepare(Function function, uint64_t bytes) {
    bytes_ = static_cast<int>(bytes);
    if (reduces(function)) {
      elements_ = elements_of(bytes, exact_);
      if (elements_.bytes == 0) return false;
      count_ = bytes_ / elements_.bytes;
    }
    const CollectiveTraits& row = traits(function);
    const bool has_blocks =
        !row.unequal && (row.send.slots == Slots::kEachRank || row.recv.slots == Slots::kEachRank);
    const uint64_t each = std::max<uint64_t>(bytes, 1) * (has_blocks ? uint64_t(size_) : 1);
    if (each > kMostMemory / 2) return false;
    if (each > capacity_) {
      send_ = std::make_unique<std::byte[]>(each);
      recv_ = std::make_unique<std::byte[]>(each);
      capacity_ = each;
    }
    // Parts of what all have together.
    const int whole = reduces(function) ? count_ : bytes_;
    counts_.resize(static_cast<size_t>(size_));
    places_.resize(static_cast<size_t>(size_));
    for (int i = 0, at = 0; i < size_; ++i) {
      const auto part = static_cast<int>(int64_t{whole} * (i + 1) / size_ - at);
      counts_[static_cast<size_t>(i)] = part;
      places_[static_cast<size_t>(i)] = at;
      at += part;
    }
    return true;
  }

  /// Whether each candidate has been measured in such calls. The same on all ranks.
  bool has_measured(Job& job, Function function, int size_class) const {
    const Communicator* const on = known_communicator(job, comm_);
    return on == nullptr || on->sampling == nullptr ||
           on->sampling->has_measured(function, size_class);
  }

  /// Makes one call, of the size that it was prepared for. What the MPI says of it.
  int call(Function function) const {
    const Handle byte = library().constants.type_byte;
    const void* const send = send_.get();
    void* const recv = recv_.get();
    const int own = counts_[static_cast<size_t>(rank_)];
    const auto& [type, op, bytes] = elements_;
    switch (function) {
      case Function::kAlltoall:
        return MPI_Alltoall(send, bytes_, byte, recv, bytes_, byte, comm_);
      case Function::kAllgather:
        return MPI_Allgather(send, bytes_, byte, recv, bytes_, byte, comm_);
      case Function::kAllgatherv:
        return MPI_Allgatherv(send, own, byte, recv, counts_.data(), places_.data(), byte, comm_);
      case Function::kGather:
        return MPI_Gather(send, bytes_, byte, recv, bytes_, byte, 0, comm_);
      case Function::kScatter:
        return MPI_Scatter(send, bytes_, byte, recv, bytes_, byte, 0, comm_);
      case Function::kBcast:
        return MPI_Bcast(recv, bytes_, byte, 0, comm_);
      case Function::kReduce:
        return MPI_Reduce(send, recv, count_, type, op, 0, comm_);
      case Function::kAllreduce:
        return MPI_Allreduce(send, recv, count_, type, op, comm_);
      case Function::kReduceScatter:
        return MPI_Reduce_scatter(send, recv, counts_.data(), type, op, comm_);
      case Function::kReduceScatterBlock:
        return MPI_Reduce_scatter_block(send, recv, count_, type, op, comm_);
      case Function::kScan:
        return MPI_Scan(send, recv, count_, type, op, comm_);
      case Function::kExscan:
        return MPI_Exscan(send, recv, count_, type, op, comm_);
      default:
        return MPI_Barrier(comm_);
    }
  }

 private:
  const Handle comm_;
  const int rank_, size_;
  const bool exact_;
  uint64_t capacity_ = 0;
  std::unique_ptr<std::byte[]> send_, recv_;
  int bytes_ = 0, count_ = 0;  ///< of a block, or of all that a call is about
  Elements elements_;
  std::vector<int> counts_, places_;
};

/// Collective: as many calls of a kind as a look at each candidate needs, and as have time.
int measure(const Caller& caller, Job& job, Function function, int size_class) {
  const Library& mpi = library();
  const int64_t began = time_ns();
  uint64_t calls = 0;
  do {
    if (const int code = caller.call(function); code != 0) return code;
    ++calls;
  } while (calls < kMostCalls && !caller.has_measured(job, function, size_class));
  const double each = static_cast<double>(time_ns() - began) / static_cast<double>(calls);
  uint64_t more =
      std::min(static_cast<uint64_t>(kMoreSeconds * 1e9 / std::max(each, 1.0)), kMostCalls - calls);
  mpi.Bcast(&more, 1, mpi.constants.type_uint64, 0, job.world);
  for (uint64_t i = 0; i < more; ++i)
    if (const int code = caller.call(function); code != 0) return code;
  return 0;
}

/// Collective: calls of all functions, of the sizes from `least` to `most`; of reductions those
/// that are `exact`, or the others alone.
int measure_all(Job& job, uint64_t least, uint64_t most, bool exact) {
  job.samples_inexact = !exact;
  Handle comm = 0;
  if (const int code = MPI_Comm_dup(library().constants.comm_world, &comm); code != 0) return code;
  {
    Caller caller(comm, job.rank, job.size, exact);
    for (const Function function : kCollectives) {
      // What is decided for all sizes depends on those of the program.
      if (moves_data(function) && !has_classes(function)) continue;
      if (!is_measured(function) || (!exact && !reduces(function))) continue;
      for (int i = 0; i < kSizeClasses; ++i) {
        const uint64_t bytes = sizes_of(i).low;
        const bool is_wanted =
            has_class(function, i) && (i == 0 || (least <= bytes && bytes <= most));
        if (!is_wanted || !caller.prepare(function, bytes)) continue;
        if (const int code = measure(caller, job, function, i); code != 0) return code;
      }
    }
  }
  const int code = MPI_Comm_free(&comm);
  job.samples_inexact = false;
  return code;
}

}  // namespace

}  // namespace ibcoll::mpi

/// Begins the MPI and ends it. 0: all went well; else this rank has said what did not.
extern "C" [[gnu::visibility("default")]] int ibcoll_mpi_measure(uint64_t least, uint64_t most) {
  using namespace ibcoll::mpi;
  if (MPI_Init(nullptr, nullptr) != 0) return 1;  // its error handler has said why
  const bool measures = running_job() != nullptr && running_job()->writes_decisions;
  int failed = measures ? 0 : 1;
  if (!measures) {
    say("nothing can be measured");
  } else {
    the_job().first_looks = FirstLooks::kAtOnce;
    for (const bool exact : {true, false})
      if (failed == 0) failed = measure_all(the_job(), least, most, exact);
  }
  return MPI_Finalize() == 0 && failed == 0 ? 0 : 1;
}
