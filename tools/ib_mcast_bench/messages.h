#pragma once
/// What travels in the multicasts of ib_mcast_bench, and what members see to when it comes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ibcoll/ibcoll.h"
#include "tools/ib_mcast_bench/bench.h"

namespace ibcoll::tools {

/// What the tag of a message says.
struct McastTag {
  uint32_t phase = 0;  ///< which algorithm and size
  uint32_t order = 0;  ///< how many its master has sent before in this phase
  uint32_t send = 0;   ///< which of the phase's
  uint64_t word() const;
  static McastTag of(uint64_t word);
};

/// Data that depend on master, tag and place.
void fill_message(std::span<std::byte> data, int master, uint64_t tag);
/// Where the first byte stands that is not what fill_message() writes; -1: nowhere.
int64_t first_difference(std::span<const std::byte> data, int master, uint64_t tag);

/// Bit r % 64 of word r / 64: rank r is a member.
std::vector<uint64_t> bitmap_of(const std::vector<int>& members, int ranks);

/// Takes the messages of one phase on one rank, and looks whether they are what was sent to it,
/// each once and in order. What is wrong first is kept.
class McastReceiver {
 public:
  McastReceiver(const ibcoll_context* context, const McastSettings& settings);

  /// `sets`: by master and number, as all ranks know them.
  void begin(uint32_t phase, int64_t bytes, const std::vector<std::vector<std::vector<int>>>& sets);
  void take(const ibcoll_message& message);
  /// Messages that shall come, of those that have come.
  int64_t expected() const { return expected_; }
  int64_t received() const { return received_; }
  Status wrong() const;

 private:
  std::string difference(const ibcoll_message& message);
  int id_of(const std::vector<int>& members) const;

  const ibcoll_context* context_;
  const McastSettings& settings_;
  int me_;
  uint32_t phase_ = 0;
  int64_t bytes_ = 0, expected_ = 0, received_ = 0;
  const std::vector<std::vector<std::vector<int>>>* sets_ = nullptr;
  std::vector<int64_t> last_order_;          ///< by master; -1: none has come
  std::vector<std::vector<bool>> has_come_;  ///< by master and send
  std::string wrong_;
};

}  // namespace ibcoll::tools
