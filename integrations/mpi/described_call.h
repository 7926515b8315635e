#pragma once
/// A collective call as this rank makes it: what the engine is told, and what is done before and
/// after. Described once, by the functions of equal_calls.cc and its like; then made at once
/// (MPI_Alltoall), started (MPI_Ialltoall), or started as often as wanted (MPI_Alltoall_init).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "integrations/mpi/blocks.h"
#include "integrations/mpi/collapse.h"
#include "integrations/mpi/communicators.h"
#include "integrations/mpi/sampling.h"

namespace ibcoll::mpi {

/// What comes of a call on this rank.
struct Outcome {
  enum Kind : uint8_t {
    kReady,  ///< it is described, and the engine can be asked
    kOver,   ///< nothing is left to do: `code` says how it went
    kMpi,    ///< it is for the MPI, for `reason`
  };
  Kind kind = kOver;
  Reason reason = Reason::kArguments;
  bool untold = false;  ///< the communicator's error handler has still to hear of `code`
  int code = 0;         ///< of the MPI; 0: well done

  static Outcome ready() { return {kReady, {}, false, 0}; }
  static Outcome over(int code) { return {kOver, {}, false, code}; }
  static Outcome failed(int code) { return {kOver, {}, true, code}; }
  static Outcome to_mpi(Reason reason) { return {kMpi, reason, false, 0}; }
};

/// Of what can't be right on this rank: the MPI says so.
inline const Outcome kToMpi = Outcome::to_mpi(Reason::kArguments);
/// Of a size that is left to the MPI.
inline const Outcome kSizeToMpi = Outcome::to_mpi(Reason::kSize);
inline const Outcome kNothingToDo = Outcome::over(0);
inline const Outcome kReady = Outcome::ready();

inline constexpr const char* kCannotPack = "elements that are not contiguous can't be packed";

inline bool is_in_place(const void* buffer) { return buffer == library().constants.in_place; }

/// Which call, and on what.
struct Attempt {
  Function function;
  const Job& job;
  const Communicator& on;
  Handle handle;    ///< the communicator; 0: it was freed
  uint64_t number;  ///< of the call on it
  Form form = Form::kBlocking;
  Sample* sample = nullptr;  ///< of a blocking call: set where it is measured

  bool has_rank(int root) const { return root >= 0 && root < on.size; }
  /// Whether the engine gets the call, of that size. Asked once, and before anything that a rank
  /// does wrong with sizes is looked at: where all are left to the MPI, it says so. Persistent
  /// calls of all sizes are the engine's: some MPIs compute theirs wrongly. `exact`: whoever
  /// carries it out, the same bits come of it; else the same one has to, each time.
  bool takes(Count size, bool exact = true) const {
    if (form == Form::kPersistent) return true;
    const auto bytes = static_cast<uint64_t>(size);
    if (on.sampling != nullptr) [[likely]] {
      if (exact || !on.sampling->is_exact())
        return on.sampling->takes(function, bytes, on.group, sample);
      if (const auto decided = on.sampling->decided(function, bytes))
        return *decided == Candidate::kEngine;
    }
    return job.selection.takes(function, bytes, on.size);
  }
  /// The same where each rank knows its own lengths only: `own`() bytes, which is asked seldom.
  template <class Own>
  bool takes_any_size(const Own& own) const {
    if (form == Form::kPersistent || on.sampling == nullptr) return true;
    return on.sampling->takes_any_size(function, on.group, sample, own);
  }

  /// Whether the MPI says that a buffer is missing: not every one does.
  bool reports_missing() const;
  bool reports_missing(const Blocks& blocks) const { return blocks.is_null() && reports_missing(); }
  /// Whether the MPI refuses such a call, that function's with these arguments but for the
  /// communicator. It is asked on a communicator of this rank alone, where nobody else hears of it:
  /// to be asked where nothing changes if it does not refuse. (Functions that make persistent calls
  /// may have other checks.)
  template <class... Arguments>
  bool refuses(const char* name, Arguments... arguments) const {
    auto* const called = reinterpret_cast<int (*)(Arguments..., Handle)>(find_symbol(name));
    return form != Form::kPersistent && called != nullptr && called(arguments..., job.alone) != 0;
  }

  /// From what the engine said of a call, or `why`. What it refuses on this rank alone ends the
  /// group, as break_off() does.
  Outcome failed(ibcoll_status status, const char* why = nullptr) const;
  /// The same where this rank alone knows of it, and the others may be in the call: the group ends
  /// with that, so that they get an error, too, rather than wait, or take this rank's next call for
  /// this one.
  Outcome break_off(const char* line, int code) const;
  /// Where this rank's own block has two lengths. Not every MPI would say so: some let it pass, and
  /// then nobody is left to answer the others.
  Outcome unequal(Count sent, Count received) const;
  /// The same, told of a root, for whose part in the call there is other memory.
  void say_unequal(Count sent, Count received) const;
  /// Where this rank has no memory, or the MPI can't pack, before the engine has the call.
  Outcome give_up() const;
  /// The same when the engine has carried it out: the others have what they wait for.
  Outcome undelivered() const;
};

/// Keeps its memory from call to call.
class DescribedCall {
 public:
  ibcoll_call call = {};  ///< names memory of `send`, `recv` and `counts`
  uint64_t bytes = 0;     ///< that this rank sends, for the report
  Blocks send, recv;      ///< as far as the call has them on this rank; bcast: one of them
  std::vector<int64_t> counts;
  const Datatype* combined = nullptr;  ///< that an operator of this library's is handed
  int code = 0;  ///< of the MPI: what this rank gets when the call has been made for the others
  std::unique_ptr<std::byte[]> spare;  ///< its memory then

  /// The end of a description: `describe` gives the call, but for the layouts of its blocks. In its
  /// place: to copy what was just written takes a tenth of a small call.
  template <class Describe>
  Outcome told(Count sent, Describe&& describe) {
    ::new (&call) ibcoll_call(describe());
    call.send_blocks = send.blocks();
    call.recv_blocks = recv.blocks();
    if (call.send_blocks != nullptr && has_one_buffer(static_cast<Collective>(call.collective)))
      call.recv_blocks = call.send_blocks;
    bytes = static_cast<uint64_t>(sent);
    return kReady;
  }
  /// For calls that have not ended when the program's function comes back.
  bool keep_datatypes() {
    if (combined != nullptr && combined->derived && (kept_ = kept_datatype(*combined)) == nullptr)
      return false;
    return send.keep_datatype() && recv.keep_datatype();
  }
  /// What is sent in place lies in `recv`.
  bool load(const Job& job) const { return send.load(job) && recv.load(job); }
  /// Each time that it is made.
  void note(const Job& job, const Communicator& on) const {
    if (collapses()) note_buffers(job, call, bytes, on.size);
  }
  bool deliver(const Job& job) const { return recv.deliver(job); }
  /// Whether the call can be made again when it has failed: what it sends is still there.
  bool repeats() const;
  /// Loads, carries out and delivers.
  Outcome carry_out(const Attempt& attempt);
  void end() {
    send.end();
    recv.end();
    combined = nullptr;
    if (code != 0) [[unlikely]] {
      code = 0;
      spare.reset();
    }
    kept_.reset();
  }

 private:
  std::shared_ptr<const Datatype> kept_;  ///< the MPI's own stays with what is made of it
};

}  // namespace ibcoll::mpi
