#pragma once
/// Plans that have been made, to be used again.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/planner/contention_free/plan.h"

namespace ibcoll::contention_free {

/// The plans of one shape on one fabric: what differs between calls is the collective, the root
/// and the sizes. Sizes of blocks fall into classes (size_class()); sizes that differ are taken as
/// they are: looking one up takes hashing them, about a nanosecond for each.
class PlanCache {
 public:
  /// `base` gives all of the inputs that does not change; the fabric must outlive the cache.
  explicit PlanCache(PlanInputs base);

  /// The plan of one of kPlanned for a block size, of its class; makes it if there is none. Of the
  /// same inputs every rank gets the same plan.
  Result<std::shared_ptr<const Plan>> get(Collective collective, int root, uint64_t block_bytes);
  /// The same for sizes of messages (PlanInputs::message_bytes).
  Result<std::shared_ptr<const Plan>> get(Collective collective, int root,
                                          const std::vector<uint64_t>& message_bytes);

  /// All that there are, in no order.
  std::vector<std::shared_ptr<const Plan>> plans() const;
  /// Drops a plan; who holds a share of it keeps it.
  void forget(const Plan* plan);

  /// What check_plan() says of the plan that get() gave last.
  Status check_last() const;

  /// The size that plans for blocks of this size are made for: up to the next number of 3 binary
  /// digits, at most a quarter more.
  static uint64_t size_class(uint64_t bytes);

  size_t size() const { return plans_.size(); }
  /// A number for fabric, shape, hosts, permitted pairs and options: the same on all ranks.
  uint64_t hash() const { return hash_; }

  /// Writes all plans to a file, one a line behind a line that says what they are for.
  Status save(const std::string& path) const;
  /// Adds the plans of a file. Refuses, naming the line: files that are not of this form or
  /// version, are for another shape, fabric or options, and plans that check_plan() does not pass.
  Status load(const std::string& path);

 private:
  struct Key {
    Collective collective;
    int root;
    uint64_t block_bytes;
    std::vector<uint64_t> message_bytes;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  Result<std::shared_ptr<const Plan>> find_or_make();
  PlanInputs request_for(const Key& key) const;

  PlanInputs base_;
  uint64_t hash_ = 0;
  Key key_;  ///< of the call in progress; kept so that lookups don't allocate
  std::unordered_map<Key, std::shared_ptr<const Plan>, Hash> plans_;
};

}  // namespace ibcoll::contention_free
