#pragma once
/// What ranks mean by a call, so that they can be told where they disagree.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/execute/mail.h"
#include "engine/execute/reduction.h"
#include "engine/schedule/program.h"
#include "engine/schedule/shape.h"
#include "engine/sharing/shared_access.h"

namespace ibcoll {

/// What a collective is for. The engine's own use of one is another call than the program's.
enum class CallPurpose : uint8_t { kProgram, kCounts, kRootCounts, kGraph, kCheck, kShrink };

/// What all ranks must mean alike by a call, as far as people want to know it.
struct CallMeaning {
  static constexpr uint8_t kUnknown = 0xff;
  static constexpr uint64_t kUnequal = ~uint64_t{0};

  uint64_t block_bytes = kUnequal;  ///< reduce_scatter: a hash of all counts
  Rank root = -1;                   ///< of the group; -1: it has none
  uint32_t number = 0;  ///< how many groups of the same list of ranks were made before its group
  uint32_t calls = 0;   ///< how many calls had been made on those
  uint32_t identifier = 0;  ///< of an operator of the program's
  uint16_t pieces = 0;
  uint8_t collective = kUnknown;
  uint8_t element = kUnknown, op = kUnknown;  ///< of a reduction
  uint8_t pacing : 4 = 0;
  CallPurpose purpose : 3 = CallPurpose::kProgram;
  bool ordered : 1 = false;
  std::array<char, 18> algorithm{};  ///< its name; longer ones are cut

  void set_algorithm(std::string_view name);
  /// "alltoall", "exchange_counts", or "another call" where nothing is known.
  std::string_view name() const;
};
static_assert(sizeof(CallMeaning) == 48, "a note is a cache line");

/// Says where two ranks' meanings differ: "rank 0 passes root 0, rank 1 root 1".
std::string differences(Rank a, const CallMeaning& x, Rank b, const CallMeaning& y);

/// A call that a rank has made.
struct CallNote {
  CallKey call;
  uint32_t program = 0;  ///< as in MessageKey
  CallMeaning meaning;
};

/// Where the ranks of a server note the calls they make: the latest kCalls of each. A rank writes
/// its own notes and reads everybody's. Of a note that is just being replaced a reader may get a
/// mixture, which is good enough for messages to people.
class CallBoard {
 public:
  static constexpr size_t kCalls = 64;
  /// Bytes of the board of so many ranks.
  static constexpr size_t bytes(size_t ranks) { return ranks * kCalls * sizeof(Line); }

  /// Memory for bytes(ranks of the server) of `me`, a rank of `shape`; zeroed, and shared by them.
  struct Place {
    std::byte* memory = nullptr;
    const Shape* shape = nullptr;
    Rank me = 0;
  };
  /// Nowhere: the rank shares it with nobody.
  explicit CallBoard(const Place& place);

  void write(uint64_t group, uint32_t sequence, uint32_t program, const CallMeaning& meaning) {
    Line& line = own_[written_++ % kCalls];
    std::array<uint64_t, sizeof(CallMeaning) / sizeof(uint64_t)> words;
    std::memcpy(words.data(), &meaning, sizeof(meaning));
    // Who reads meanwhile takes it for no note: what is there of the words may be of two calls.
    line[0].store(kNoNote, std::memory_order_relaxed);
    for (size_t i = 0; i < words.size(); ++i)
      line[2 + i].store(words[i], std::memory_order_release);
    line[1].store(uint64_t{program} << 32 | sequence, std::memory_order_release);
    line[0].store(~group, std::memory_order_release);
  }
  /// This rank's note of a call, if it is among its latest ones.
  std::optional<CallNote> find(const CallKey& call) const { return find(own_, call); }
  /// The same of a rank of the job; none of other servers.
  std::optional<CallNote> find(Rank rank, const CallKey& call) const;

 private:
  /// Of a group: its key with all bits turned round; then program and sequence; then the meaning.
  using Line = std::array<Shared<uint64_t>, 8>;
  static constexpr uint64_t kNoNote = 0;
  static std::optional<CallNote> find(const Line* lines, const CallKey& call);

  std::unique_ptr<Line[]> private_;
  Line* all_ = nullptr;  ///< null: there is no shared one
  Line* own_;
  const Shape* shape_ = nullptr;
  int server_ = 0;
  uint32_t written_ = 0;
};

}  // namespace ibcoll
