#include "engine/planner/contention_free/rounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <span>

namespace ibcoll::contention_free {

namespace {

/// Shipments that links carry at once times rounds, at most: each takes 4 bytes.
constexpr size_t kMostCells = 100'000'000;
/// Until all shipments have a round this many have taken others' places, for each shipment; then
/// there is one more round each time that its share of them has.
constexpr double kTakenForEach = 10;
/// How many rounds are compared then.
constexpr int kMostCompared = 16;
/// Nothing is gained by fewer rounds than so many for each that the busiest link needs.
constexpr double kEnough = 1.03;
/// Links that are looked at for fewer rounds: so many for each shipment, within bounds, and for one
/// round less. 128 servers take less than half a second, a thousand some.
constexpr size_t kLooksForEach = 3000, kFewestLooks = 20'000'000, kMostLooks = 500'000'000,
                 kMostForOne = 200'000'000;
/// Of shipments without a round so many are looked at for one that finds a place.
constexpr size_t kMostTried = 2;
/// A shipment that had to leave a round stays out of it for about so many moves, and for more the
/// more there are without a round.
constexpr uint64_t kFewestMoves = 10;
constexpr double kMovesForEach = 0.6;
constexpr size_t kPlaces = 1'000'003;

class Rounds {
 public:
  explicit Rounds(const Problem& problem) : problem_(problem), random_(problem.inputs.seed) {}

  std::vector<uint32_t> run() {
    if (!list_links() || !fill()) return {};
    size_t looks = std::clamp(kLooksForEach * round_.size(), kFewestLooks, kMostLooks);
    while (rounds_ > kEnough * busiest_ && looks > 0) {
      std::vector<uint32_t> before = round_;
      size_t most = std::min(looks, kMostForOne);
      looks -= most;
      drop_round();
      if (!settle(most)) {
        round_ = std::move(before);
        ++rounds_;
        break;
      }
      looks += most;
    }
    std::vector<uint32_t> order(round_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return round_[a] < round_[b]; });
    return order;
  }

 private:
  using Word = uint64_t;
  static constexpr int kBits = 64;

  size_t length(uint32_t shipment) const { return first_[shipment + 1] - first_[shipment]; }
  std::span<const uint32_t> links(uint32_t shipment) const {
    return {links_.data() + first_[shipment], links_.data() + first_[shipment + 1]};
  }

  /// The links of each shipment that it may have to wait for. False: there is no such order.
  bool list_links() {
    constexpr double kMostRounds = 1.5;
    std::vector<uint32_t> number(problem_.links.size(), kNone);
    first_place_.push_back(0);
    for (size_t link = 0; link < problem_.links.size(); ++link) {
      const LinkUse& use = problem_.links[link];
      if (use.shipments <= use.units) continue;
      number[link] = static_cast<uint32_t>(first_place_.size()) - 1;
      first_place_.push_back(first_place_.back() + static_cast<uint32_t>(use.units));
      const int64_t rounds = (use.shipments + use.units - 1) / use.units;
      busiest_ = std::max(busiest_, static_cast<int>(rounds));
    }
    rounds_ = busiest_;
    words_ = (static_cast<size_t>(kMostRounds * rounds_) + kBits) / kBits;
    if (rounds_ == 0 || words_ * kBits * first_place_.back() > kMostCells) return false;
    Path path;
    first_.push_back(0);
    for (uint32_t i = 0; i < problem_.shipments.size(); ++i) {
      if (problem_.shipments[i].duration_ns != problem_.shipments[0].duration_ns) return false;
      for (const Hop& hop : problem_.route(i, path)) {
        if (number[hop.link] == kNone) continue;
        if (hop.units != 1) return false;
        links_.push_back(number[hop.link]);
      }
      first_.push_back(static_cast<uint32_t>(links_.size()));
    }
    free_.assign(words_ * (first_place_.size() - 1), 0);
    owner_.assign(words_ * kBits * first_place_.back(), kNone);
    for (int round = 0; round < rounds_; ++round) open(round);
    round_.assign(problem_.shipments.size(), kNone);
    times_left_.assign(problem_.shipments.size(), 0);
    return true;
  }

  Word& word(uint32_t link, int round) {
    return free_[link * words_ + static_cast<size_t>(round / kBits)];
  }
  static Word bit(int round) { return Word{1} << round % kBits; }
  /// Who has a link in a round, one for each that it carries at once; kNone for those there are
  /// fewer.
  uint32_t& owner(uint32_t place, int round) {
    return owner_[place * words_ * kBits + static_cast<size_t>(round)];
  }
  /// The place of a link that somebody has, or that nobody has, if it has one.
  uint32_t place_of(uint32_t shipment, uint32_t link, int round) {
    uint32_t place = first_place_[link];
    while (place < first_place_[link + 1] && owner(place, round) != shipment) ++place;
    return place;
  }
  /// Who has to leave for a link in a round: of several the shortest. kNone if it is free.
  uint32_t in_the_way(uint32_t link, int round) {
    if ((word(link, round) & bit(round)) != 0) return kNone;
    uint32_t shortest = owner(first_place_[link], round);
    for (uint32_t place = first_place_[link] + 1; place < first_place_[link + 1]; ++place) {
      const uint32_t other = owner(place, round);
      if (length(other) < length(shortest)) shortest = other;
    }
    return shortest;
  }
  void open(int round) {
    for (uint32_t link = 0; link < free_.size() / words_; ++link) word(link, round) |= bit(round);
  }
  void take(uint32_t shipment, int round) {
    round_[shipment] = static_cast<uint32_t>(round);
    for (const uint32_t link : links(shipment)) {
      owner(place_of(kNone, link, round), round) = shipment;
      if (place_of(kNone, link, round) == first_place_[link + 1]) word(link, round) &= ~bit(round);
    }
  }
  void leave(uint32_t shipment) {
    const auto round = static_cast<int>(round_[shipment]);
    for (const uint32_t link : links(shipment)) {
      owner(place_of(shipment, link, round), round) = kNone;
      word(link, round) |= bit(round);
    }
    round_[shipment] = kNone;
  }
  /// Takes the round from those that are in the way; adds these to `without`.
  void take_from(uint32_t shipment, int round, std::vector<uint32_t>& without) {
    for (const uint32_t link : links(shipment)) {
      const uint32_t other = in_the_way(link, round);
      if (other == kNone) continue;
      leave(other);
      ++times_left_[other];
      without.push_back(other);
    }
    take(shipment, round);
  }

  /// A round for each, the longest first. False: far too many rounds.
  bool fill() {
    std::vector<uint32_t> without(problem_.shipments.size());
    std::iota(without.begin(), without.end(), 0);
    std::stable_sort(without.begin(), without.end(),
                     [&](uint32_t a, uint32_t b) { return length(a) < length(b); });
    const auto most =
        static_cast<size_t>(kTakenForEach * static_cast<double>(without.size()) / rounds_) + 1;
    for (size_t taken = 0; !without.empty();) {
      const uint32_t shipment = without.back();
      without.pop_back();
      int round = free_round(shipment);
      if (round < 0 && taken++ < most) {
        take_from(shipment, round_to_take(shipment), without);
        continue;
      }
      if (round < 0) {
        round = rounds_++;
        taken = 0;
        if (static_cast<size_t>(rounds_) > words_ * kBits) return false;
        open(round);
      }
      take(shipment, round);
    }
    return true;
  }

  int free_round(uint32_t shipment) const {
    for (size_t w = 0; w < words_; ++w) {
      Word all = ~Word{0};
      for (const uint32_t link : links(shipment)) {
        all &= free_[link * words_ + w];
        if (all == 0) break;
      }
      if (all != 0) return static_cast<int>(w) * kBits + std::countr_zero(all);
    }
    return -1;
  }

  /// A round of which few links are taken from others, of several the one whose others are shortest
  /// and have seldom had to go; any if there is none.
  int round_to_take(uint32_t shipment) {
    int best = -1, compared = 0;
    double least = 0;
    const size_t begin = random_() % words_;
    for (const bool two : {false, true}) {
      for (size_t i = 0; i < words_ && compared < kMostCompared; ++i) {
        const size_t w = begin + i < words_ ? begin + i : begin + i - words_;
        Word once = 0, twice = 0, more = 0;  // of the rounds: taken links of the route
        for (const uint32_t link : links(shipment)) {
          const Word busy = ~free_[link * words_ + w];
          more |= twice & busy;
          twice |= once & busy;
          once |= busy;
        }
        for (Word some = two ? twice & ~more : once & ~twice; some != 0; some &= some - 1) {
          const int round = static_cast<int>(w) * kBits + std::countr_zero(some);
          if (round >= rounds_ || compared == kMostCompared) break;
          ++compared;
          const double price = price_of(shipment, round);
          if (best >= 0 && price >= least) continue;
          best = round;
          least = price;
        }
      }
      if (best >= 0) return best;
    }
    return static_cast<int>(random_() % static_cast<uint64_t>(rounds_));
  }

  double price_of(uint32_t shipment, int round) {
    double price = 0;
    uint32_t last = kNone;
    for (const uint32_t link : links(shipment)) {
      const uint32_t other = in_the_way(link, round);
      if (other == kNone || other == last) continue;
      last = other;
      price += static_cast<double>(length(other)) + times_left_[other];
    }
    return price;
  }

  /// Leaves out the round with the fewest shipments, which are without one then.
  void drop_round() {
    std::vector<int> shipments(rounds_, 0);
    for (const uint32_t round : round_) ++shipments[round];
    const auto least = std::min_element(shipments.begin(), shipments.end()) - shipments.begin();
    const auto fewest = static_cast<uint32_t>(least), last = static_cast<uint32_t>(rounds_ - 1);
    without_.clear();
    for (uint32_t i = 0; i < round_.size(); ++i) {
      if (round_[i] != fewest) continue;
      leave(i);
      without_.push_back(i);
    }
    for (uint32_t i = 0; i < round_.size() && fewest != last; ++i) {
      if (round_[i] != last) continue;
      leave(i);
      take(i, static_cast<int>(fewest));
    }
    --rounds_;
    for (uint32_t link = 0; link < free_.size() / words_; ++link) {
      word(link, rounds_) &= ~bit(rounds_);
    }
  }

  /// Rounds for those that have none, by tabu search on partial colourings (PartialCol: Blöchliger
  /// and Zufferey, 2008): a shipment goes where it puts out the fewest, who do not come back there
  /// for some moves. False when `looks` links have been looked at; what is left of them.
  bool settle(size_t& looks) {
    stays_out_.assign(kPlaces, 0);
    for (uint64_t move = 0; !without_.empty(); ++move) {
      Move best;
      const size_t tried = std::min(without_.size(), kMostTried);
      const size_t begin = random_() % without_.size();
      for (size_t k = 0; k < tried; ++k) {
        look((begin + k) % without_.size(), move, best, looks);
      }
      if (looks == 0) return false;
      if (best.round < 0) continue;
      const uint32_t shipment = without_[best.at];
      without_[best.at] = without_.back();
      without_.pop_back();
      const size_t others = without_.size();
      take_from(shipment, best.round, without_);
      const auto wait = static_cast<uint64_t>(kMovesForEach * static_cast<double>(without_.size()));
      for (size_t i = others; i < without_.size(); ++i) {
        stays_out(without_[i], best.round) = move + wait + random_() % kFewestMoves;
      }
    }
    return true;
  }

  struct Move {
    size_t at = 0;  ///< in without_
    int round = -1;
    /// The links of those that have to leave, less those of the shipment: short ones find another
    /// round more easily.
    int64_t price = INT64_MAX;
    uint64_t alike = 0;  ///< moves as good
  };

  /// Compares rounds in which others have few links of the shipment, or if there are none all.
  void look(size_t at, uint64_t move, Move& best, size_t& looks) {
    const std::span<const uint32_t> mine = links(without_[at]);
    bool some = false;
    for (size_t w = 0; w < words_; ++w) {
      Word one = 0, two = 0, three = 0, more = 0;  // of the rounds: links that others have
      for (const uint32_t link : mine) {
        const Word busy = ~free_[link * words_ + w];
        more |= three & busy;
        three |= two & busy;
        two |= one & busy;
        one |= busy;
      }
      for (Word few = ~more; few != 0; few &= few - 1) {
        const int round = static_cast<int>(w) * kBits + std::countr_zero(few);
        if (round >= rounds_) break;
        some = consider(at, round, move, best) || some;
        looks -= std::min(looks, mine.size());
      }
    }
    looks -= std::min(looks, words_ * mine.size());
    if (some) return;
    for (int round = 0; round < rounds_; ++round) consider(at, round, move, best);
    looks -= std::min(looks, static_cast<size_t>(rounds_) * mine.size());
  }

  /// False where the shipment stays out of the round.
  bool consider(size_t at, int round, uint64_t move, Move& best) {
    const uint32_t shipment = without_[at];
    if (stays_out(shipment, round) > move) return false;
    constexpr int kMostOthers = 32;
    std::array<uint32_t, kMostOthers> others;
    int count = 0;
    int64_t price = -static_cast<int64_t>(length(shipment));
    for (const uint32_t link : links(shipment)) {
      const uint32_t other = in_the_way(link, round);
      if (other == kNone || std::count(others.begin(), others.begin() + count, other) > 0) continue;
      others[count++] = other;
      price += static_cast<int64_t>(length(other));
      if (price > best.price || count == kMostOthers) return true;
    }
    best.alike = price == best.price ? best.alike + 1 : 1;
    if (random_() % best.alike != 0) return true;
    best.at = at;
    best.round = round;
    best.price = price;
    return true;
  }

  /// Until which move a shipment does not come back to a round that it had to leave. Where two
  /// share a place of the table, one stays out of a round for nothing.
  uint64_t& stays_out(uint32_t shipment, int round) {
    const size_t key = static_cast<size_t>(shipment) * words_ * kBits + static_cast<size_t>(round);
    return stays_out_[key % stays_out_.size()];
  }

  const Problem& problem_;
  std::mt19937_64 random_;
  int busiest_ = 0;  ///< shipments of the link that has most
  int rounds_ = 0;
  size_t words_ = 0;                   ///< of rounds
  std::vector<uint32_t> links_;        ///< of the shipments, one after the other
  std::vector<uint32_t> first_;        ///< by shipment, in links_
  std::vector<Word> free_;             ///< by link: the rounds that have it free
  std::vector<uint32_t> first_place_;  ///< by link, in owner_
  std::vector<uint32_t> owner_;        ///< by place and round: the shipment
  std::vector<uint32_t> round_;        ///< by shipment
  std::vector<int> times_left_;        ///< by shipment: how often it had to leave a round
  std::vector<uint64_t> stays_out_;
  std::vector<uint32_t> without_;  ///< shipments that have no round
};

}  // namespace

std::vector<uint32_t> round_order(const Problem& problem) {
  if (problem.shipments.empty()) return {};
  return Rounds(problem).run();
}

}  // namespace ibcoll::contention_free
