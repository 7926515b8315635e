#include "engine/multicast/window.h"

#include <algorithm>
#include <bit>

#include "engine/multicast/numbers.h"

namespace ibcoll {
namespace {

constexpr Rank kWindowBits = 64;

/// The members of `set` among the 64 ranks from `first` on, which a word of a set begins with.
uint64_t word_from(const RankSet& set, Rank first) {
  const int64_t word = (int64_t{first} - set.first_of_words()) / kWindowBits;
  if (first < set.first_of_words() || word >= std::ssize(set.words())) return 0;
  return set.words()[word];
}

}  // namespace

MulticastWindow::MulticastWindow(int ranks, uint32_t limit) : ranks_(ranks), limit_(limit) {}

std::optional<MulticastWindow::Held> MulticastWindow::held(const RankSet& set) const {
  for (const Rank rank : full_) {
    if (set.contains(rank)) return Held{rank, lacks_[rank], true};
  }
  if (in_time_ < limit_) return {};
  for (const Entry& entry : entries_) {
    if (entry.missing) continue;
    return Held{entry.set.size() == 1 ? entry.set.rank_of(0) : -1, in_time_, false};
  }
  return Held{-1, in_time_, false};  // a window of none
}

uint64_t MulticastWindow::start(const RankSet& set, std::vector<uint64_t>& previous) {
  previous.clear();
  Entry entry{++counter_, set, {}, {}};
  if (!entries_.empty() && find_previous(set, previous)) {
    for (size_t id = 0; id < previous.size(); ++id) {
      if (id == 0 || previous[id] != previous[id - 1]) entry.runs.push_back({0, previous[id]});
      entry.runs.back().end = static_cast<int>(id) + 1;
    }
  }
  entries_.push_back(std::move(entry));
  ++in_time_;
  return counter_;
}

/// Fills in `previous` from the bitmaps of those under way; stays empty, and false, where none has
/// a member of the set.
bool MulticastWindow::find_previous(const RankSet& set, std::vector<uint64_t>& previous) const {
  int id = 0;  // of the first member in the word
  Rank first = set.first_of_words();
  for (const uint64_t word : set.words()) {
    uint64_t left = word;
    for (auto entry = entries_.rbegin(); left != 0 && entry != entries_.rend(); ++entry) {
      uint64_t both = left & word_from(entry->set, first);
      if (both == 0) continue;
      if (previous.empty()) previous.resize(set.size());
      left &= ~both;
      if (both == word) {
        std::fill_n(previous.begin() + id, std::popcount(word), entry->counter);
        continue;
      }
      for (; both != 0; both &= both - 1) {
        const uint64_t below = (both & -both) - 1;
        previous[id + std::popcount(word & below)] = entry->counter;
      }
    }
    id += std::popcount(word);
    first += kWindowBits;
  }
  return !previous.empty();
}

std::deque<MulticastWindow::Entry>::iterator MulticastWindow::find(uint64_t counter) {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), counter,
                       [](const Entry& entry, uint64_t wanted) { return entry.counter < wanted; });
  return at != entries_.end() && at->counter == counter ? at : entries_.end();
}

/// Counts one that is late for (1), or no longer against (-1), the ranks that lack it.
void MulticastWindow::count(const Entry& entry, int sign) {
  if (lacks_.empty()) lacks_.resize(ranks_);
  entry.missing->for_each([&](Rank rank) {
    lacks_[rank] += static_cast<uint32_t>(sign);
    if (lacks_[rank] >= limit_) {
      full_.insert(rank);
    } else {
      full_.erase(rank);
    }
  });
}

void MulticastWindow::late(uint64_t counter, const RankSet& missing) {
  const auto entry = find(counter);
  if (entry == entries_.end()) return;
  if (entry->missing) {
    count(*entry, -1);
  } else {
    --in_time_;
  }
  entry->missing = missing;
  count(*entry, 1);
}

void MulticastWindow::finish(uint64_t counter) {
  const auto entry = find(counter);
  if (entry == entries_.end()) return;
  if (entry->missing) {
    count(*entry, -1);
  } else {
    --in_time_;
  }
  entries_.erase(entry);
}

uint64_t MulticastWindow::previous_of(uint64_t counter, Rank member) const {
  const auto entry = const_cast<MulticastWindow*>(this)->find(counter);
  if (entry == entries_.end()) return 0;
  const auto id = entry->set.id_of(member);
  if (!id || entry->runs.empty()) return 0;
  return std::upper_bound(entry->runs.begin(), entry->runs.end(), *id,
                          [](int wanted, const MemberRun& run) { return wanted < run.end; })
      ->previous;
}

}  // namespace ibcoll
