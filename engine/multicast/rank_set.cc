#include "engine/multicast/rank_set.h"

#include <algorithm>
#include <array>
#include <bit>

#include "engine/multicast/numbers.h"

namespace ibcoll {
namespace {

constexpr uint8_t kGaps = 0, kRuns = 1, kForms = 3;  // and bits
constexpr int kWordBits = 64;

int word_of(Rank offset) { return offset / kWordBits; }
uint64_t bit_of(Rank offset) { return uint64_t{1} << (offset % kWordBits); }

/// The members as runs of consecutive ranks: visit(first, length).
template <class Visit>
void for_each_run(const RankSet& set, Visit visit) {
  Rank first = -1, end = -1;
  set.for_each([&](Rank rank) {
    if (rank == end) {
      ++end;
      return;
    }
    if (first >= 0) visit(first, end - first);
    first = rank;
    end = rank + 1;
  });
  if (first >= 0) visit(first, end - first);
}

/// What stands behind the first member in each form; its size decides.
void append_gaps(const RankSet& set, std::vector<std::byte>& out) {
  Rank before = -1;
  set.for_each([&](Rank rank) {
    if (before >= 0) append_number(out, static_cast<uint32_t>(rank - before - 1));
    before = rank;
  });
}

void append_runs(const RankSet& set, std::vector<std::byte>& out) {
  Rank end = -1;
  for_each_run(set, [&](Rank first, int length) {
    if (end >= 0) append_number(out, static_cast<uint32_t>(first - end - 1));
    append_number(out, static_cast<uint32_t>(length - 1));
    end = first + length;
  });
}

template <class... Args>
tl::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kMismatch, "a set of ranks that can't be right: {}",
              fmt::format(format, std::forward<Args>(args)...));
}

/// Reads what append_gaps(), append_runs() and append_bits() have written.
class Reader {
 public:
  Reader(std::span<const std::byte>& in, int ranks, uint32_t count, Rank first)
      : in_(in), limit_(static_cast<uint32_t>(ranks)), count_(count), next_(first) {}

  Status gaps() {
    IBCOLL_TRY(enter(0, 1));
    while (members_.size() < count_) {
      IBCOLL_ASSIGN(const uint32_t gap, take_number(in_, limit_, "a gap between ranks"));
      IBCOLL_TRY(enter(gap, 1));
    }
    return {};
  }

  Status runs() {
    uint64_t gap = 0;
    while (true) {
      IBCOLL_ASSIGN(const uint32_t more, take_number(in_, limit_, "the length of a run of ranks"));
      IBCOLL_TRY(enter(gap, uint64_t{more} + 1));
      if (members_.size() == count_) return {};
      IBCOLL_ASSIGN(const uint32_t between, take_number(in_, limit_, "a gap between ranks"));
      gap = uint64_t{between} + 1;  // runs that touch are one
    }
  }

  Status bits() {
    IBCOLL_ASSIGN(const uint32_t span, take_number(in_, limit_, "the length of a bitmap"));
    const size_t bytes = span / 8 + 1;
    if (in_.size() < bytes) return wrong("the message ends inside a bitmap");
    const auto bit = [&](uint32_t at) {
      return (static_cast<unsigned>(in_[at / 8]) >> (at % 8) & 1) != 0;
    };
    if (!bit(0) || !bit(span)) return wrong("a bitmap that neither begins nor ends with a member");
    if (static_cast<unsigned>(in_[bytes - 1]) >> (span % 8) >> 1 != 0) {
      return wrong("bits behind the end of a bitmap");
    }
    const Rank first = next_;
    for (uint32_t at = 0; at <= span; ++at) {
      if (!bit(at)) continue;
      IBCOLL_TRY(enter(static_cast<uint32_t>(first) + at - static_cast<uint32_t>(next_), 1));
    }
    if (members_.size() != count_) {
      return wrong("{} members are announced, a bitmap has {}", count_, members_.size());
    }
    in_ = in_.subspan(bytes);
    return {};
  }

  const std::vector<Rank>& members() const { return members_; }

 private:
  Status enter(uint64_t gap, uint64_t run) {
    if (members_.size() + run > count_) {
      return wrong("more than the {} members that are announced", count_);
    }
    if (static_cast<uint64_t>(next_) + gap + run > limit_) {
      return wrong("rank {} of {} ranks", static_cast<uint64_t>(next_) + gap + run - 1, limit_);
    }
    next_ += static_cast<Rank>(gap);
    for (uint64_t i = 0; i < run; ++i) members_.push_back(next_++);
    return {};
  }

  std::span<const std::byte>& in_;
  const uint32_t limit_, count_;
  Rank next_;
  std::vector<Rank> members_;
};

}  // namespace

RankSet::RankSet(std::span<const Rank> members) : size_(static_cast<int>(members.size())) {
  if (members.empty()) return;
  base_ = members.front() / kWordBits * kWordBits;
  words_.resize(word_of(members.back() - base_) + 1);
  for (const Rank rank : members) words_[word_of(rank - base_)] |= bit_of(rank - base_);
  count_words();
}

void RankSet::count_words() {
  before_.resize(words_.size());
  int members = 0;
  for (size_t i = 0; i < words_.size(); ++i) {
    before_[i] = members;
    members += std::popcount(words_[i]);
  }
}

Result<RankSet> RankSet::create(std::span<const Rank> members, int ranks) {
  std::vector<Rank> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= ranks)) {
    return fail(ErrorCode::kInvalidArgument, "rank {} in a set: there are {} ranks, from 0",
                sorted.front() < 0 ? sorted.front() : sorted.back(), ranks);
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return fail(ErrorCode::kInvalidArgument, "rank {} stands in a set twice", *twice);
  }
  return RankSet(sorted);
}

/// How long each form would be. The time goes with the words between the first and the last member,
/// and with the runs only where they may be shortest: a master encodes a set each time it sends.
std::array<size_t, 3> RankSet::lengths() const {
  size_t gaps = 0, runs = 0;
  Rank last = -1;      // member so far, from base_
  uint64_t carry = 0;  // whether the word before ends with a member
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t word = words_[i];
    runs += static_cast<size_t>(std::popcount(word & ~(word << 1 | carry)));
    carry = word >> (kWordBits - 1);
    if (word == 0) continue;
    const auto begin = static_cast<Rank>(kWordBits * i);
    // Inside of a word each gap takes a byte.
    gaps += static_cast<size_t>(std::popcount(word)) - 1;
    if (last >= 0)
      gaps += number_bytes(static_cast<uint32_t>(begin + std::countr_zero(word) - last - 1));
    last = begin + kWordBits - 1 - std::countl_zero(word);
  }
  const auto span = static_cast<uint32_t>(last - std::countr_zero(words_.front()));
  const size_t bits = number_bytes(span) + span / 8 + 1;
  // A run takes two bytes at least, but for the gap behind the last one.
  size_t run_bytes = 2 * runs - 1;
  if (run_bytes < gaps && run_bytes <= bits) {
    run_bytes = 0;
    Rank end = -1;
    for_each_run(*this, [&](Rank first, int length) {
      if (end >= 0) run_bytes += number_bytes(static_cast<uint32_t>(first - end - 1));
      run_bytes += number_bytes(static_cast<uint32_t>(length - 1));
      end = first + length;
    });
  }
  return {gaps, run_bytes, bits};
}

void RankSet::append_bits(std::vector<std::byte>& out) const {
  const int shift = std::countr_zero(words_.front());
  const uint32_t span = static_cast<uint32_t>(kWordBits * words_.size()) -
                        static_cast<uint32_t>(std::countl_zero(words_.back()) + shift) - 1;
  append_number(out, span);
  size_t left = span / 8 + 1;
  for (size_t i = 0; left > 0; ++i) {
    uint64_t word = words_[i] >> shift;
    if (shift != 0 && i + 1 < words_.size()) word |= words_[i + 1] << (kWordBits - shift);
    for (size_t byte = 0; byte < 8 && left > 0; ++byte, --left)
      out.push_back(static_cast<std::byte>(word >> (8 * byte)));
  }
}

/// Of words whose first and last may be empty; `base`: of the first one's bit 0.
RankSet RankSet::of_words(Rank base, std::span<const uint64_t> words) {
  RankSet set;
  size_t first = 0, end = words.size();
  while (first < end && words[first] == 0) ++first;
  while (end > first && words[end - 1] == 0) --end;
  if (first == end) return set;
  set.base_ = base + static_cast<Rank>(kWordBits * first);
  set.words_.assign(words.begin() + static_cast<std::ptrdiff_t>(first),
                    words.begin() + static_cast<std::ptrdiff_t>(end));
  set.count_words();
  set.size_ = set.before_.back() + std::popcount(set.words_.back());
  return set;
}

Result<RankSet> RankSet::from_bitmap(std::span<const uint64_t> words, int ranks) {
  const auto whole = static_cast<size_t>(ranks) / kWordBits;
  for (size_t i = whole; i < words.size(); ++i) {
    const uint64_t wrong = i > whole ? words[i] : words[i] & ~(bit_of(ranks) - 1);
    if (wrong == 0) continue;
    return fail(ErrorCode::kInvalidArgument, "rank {} in a set: there are {} ranks, from 0",
                kWordBits * i + static_cast<size_t>(std::countr_zero(wrong)), ranks);
  }
  return of_words(0, words);
}

RankSet RankSet::without(Rank rank) const {
  std::vector<uint64_t> words = words_;
  words[static_cast<size_t>(word_of(rank - base_))] &= ~bit_of(rank - base_);
  return of_words(base_, words);
}

RankSet RankSet::interval(Rank first, Rank end) {
  std::vector<Rank> ranks;
  for (Rank rank = first; rank < end; ++rank) ranks.push_back(rank);
  return RankSet(ranks);
}

bool RankSet::contains(Rank rank) const {
  if (rank < base_) return false;
  const auto word = static_cast<size_t>(word_of(rank - base_));
  return word < words_.size() && (words_[word] & bit_of(rank - base_)) != 0;
}

std::optional<int> RankSet::id_of(Rank rank) const {
  if (!contains(rank)) return {};
  const int word = word_of(rank - base_);
  return before_[word] + std::popcount(words_[word] & (bit_of(rank - base_) - 1));
}

Rank RankSet::rank_of(int id) const {
  const auto word =
      static_cast<size_t>(std::upper_bound(before_.begin(), before_.end(), id) - before_.begin()) -
      1;
  uint64_t bits = words_[word];
  for (int i = before_[word]; i < id; ++i) bits &= bits - 1;
  return base_ + static_cast<Rank>(kWordBits * word) + std::countr_zero(bits);
}

std::vector<Rank> RankSet::members() const {
  std::vector<Rank> result;
  result.reserve(size_);
  for_each([&](Rank rank) { result.push_back(rank); });
  return result;
}

RankSet RankSet::part(int first, int end) const {
  RankSet result;
  if (first >= end) return result;
  const Rank low = rank_of(first), high = rank_of(end - 1);
  const int first_word = word_of(low - base_), last_word = word_of(high - base_);
  result.base_ = base_ + first_word * kWordBits;
  result.size_ = end - first;
  result.words_.assign(words_.begin() + first_word, words_.begin() + last_word + 1);
  result.words_.front() &= ~(bit_of(low - base_) - 1);
  result.words_.back() &= bit_of(high - base_) | (bit_of(high - base_) - 1);
  result.count_words();
  return result;
}

void RankSet::encode(std::vector<std::byte>& out) const {
  if (empty()) {
    out.push_back(static_cast<std::byte>(kGaps));
    append_number(out, 0);
    return;
  }
  const auto all = lengths();
  const auto form = static_cast<uint8_t>(std::min_element(all.begin(), all.end()) - all.begin());
  out.push_back(static_cast<std::byte>(form));
  append_number(out, static_cast<uint32_t>(size_));
  append_number(out, static_cast<uint32_t>(rank_of(0)));
  switch (form) {
    case kGaps:
      return append_gaps(*this, out);
    case kRuns:
      return append_runs(*this, out);
    default:
      return append_bits(out);
  }
}

std::vector<std::byte> RankSet::encode() const {
  std::vector<std::byte> out;
  encode(out);
  return out;
}

Result<RankSet> RankSet::decode(std::span<const std::byte>& in, int ranks) {
  if (in.empty()) return wrong("the message ends before it");
  const auto form = static_cast<uint8_t>(in.front());
  if (form >= kForms) return wrong("form {}: there are {}", form, kForms);
  std::span<const std::byte> rest = in.subspan(1);
  IBCOLL_ASSIGN(RankSet set, decode_members(form, rest, ranks));
  // One set, one encoding: who compares bytes compares sets.
  if (!set.empty() && set.encode().front() != in.front()) {
    return wrong("form {}, which is not the shortest", form);
  }
  in = rest;
  return set;
}

Result<RankSet> RankSet::decode_members(uint8_t form, std::span<const std::byte>& in, int ranks) {
  IBCOLL_ASSIGN(const uint32_t count,
                take_number(in, static_cast<uint32_t>(ranks), "the number of members"));
  if (count == 0) {
    if (form != kGaps) return wrong("form {} of no members", form);
    return RankSet();
  }
  IBCOLL_ASSIGN(const uint32_t first,
                take_number(in, static_cast<uint32_t>(ranks - 1), "the first member"));
  Reader reader(in, ranks, count, static_cast<Rank>(first));
  switch (form) {
    case kGaps:
      IBCOLL_TRY(reader.gaps());
      break;
    case kRuns:
      IBCOLL_TRY(reader.runs());
      break;
    default:
      IBCOLL_TRY(reader.bits());
  }
  return RankSet(reader.members());
}

Result<RankSet> RankSet::decode_all(std::span<const std::byte> in, int ranks) {
  IBCOLL_ASSIGN(RankSet set, decode(in, ranks));
  if (!in.empty()) return wrong("{} bytes stand behind it", in.size());
  return set;
}

}  // namespace ibcoll
