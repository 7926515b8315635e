#pragma once
/// What follows a call where every byte is checked (IBCOLL_CHECK): the ranks tell each other hashes
/// of what they have sent, on the ways that the data has gone, or the reduction is made again.

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/bound_call.h"

namespace ibcoll {

/// Of one call, or of one after the other. The same kind of collective carries hashes from those
/// that have sent to those that have received, and whoever has received compares:
/// - what is moved: a hash of each block;
/// - sums of integers and exclusive or: a hash that commutes with them, combined like the data;
/// - other reductions whose results do not depend on the order: the reduction once more;
/// - the other allreduces: rank 0's result;
/// - what is left, reductions of floating-point numbers to one result a rank, can't be checked.
class DataCheck {
 public:
  explicit DataCheck(Group& group);
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;
  DataCheck& operator=(const DataCheck&) = delete;

  /// How a call is checked; the same on all its ranks.
  enum class Kind : uint8_t { kNone, kHashes, kLinear, kAgain, kAlike };
  static Kind kind_of(const BoundCall& call);

  /// Takes memory, and gives that of the one before back. The call must stay bound until compare(),
  /// or, where kind_of() is not kAgain, until hash_received().
  Status prepare(const BoundCall& call);
  /// For each start, before anything is sent. `aside`: what is sent in place has been copied there.
  void start(const std::byte* aside);
  /// Hashes what is sent, unless that has been done. Before the program may change it.
  void hash_sent();
  /// The exchange begins: all data has come.
  Status post(Completion& completion, uint32_t sequence, int64_t time_limit_ns,
              int64_t deadline_ns);
  /// Hashes what has been received, unless that has been done.
  void hash_received();
  /// The exchange has ended: the job's end where something is not what it must be.
  Status compare();
  /// Gives the memory back.
  void release();

 private:
  uint64_t length(Buffer buffer, uint32_t block) const;
  uint64_t hash_of(Buffer buffer, uint32_t block) const;
  bool compares_own(uint32_t block) const;
  bool has_result() const { return receives_ != 0; }
  const std::byte* result() const;
  uint64_t result_bytes() const;
  Status prepare_exchange();
  Status report(Rank from, const std::string& what);
  Status compare_hashes();

  std::shared_ptr<Group> group_;
  BoundCall exchange_;  ///< carries the hashes
  Kind kind_ = Kind::kNone;
  // Of the call that is checked.
  CallArguments arguments_;
  CallPlan plan_;
  Binding binding_;
  CallMeaning meaning_;
  const std::byte* aside_ = nullptr;
  bool sent_hashed_ = false, received_hashed_ = false;
  uint32_t sends_ = 0, receives_ = 0;  ///< blocks
  std::byte* memory_ = nullptr;        ///< of the exchange, or of the second result
  std::byte *sent_ = nullptr, *told_ = nullptr;
  std::vector<uint64_t> received_;  ///< hashes
};

}  // namespace ibcoll
