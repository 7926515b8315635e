#include "engine/multicast/bound.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_tree.h"

namespace ibcoll {
namespace {

/// Of an announcement beside the set and the data: head, counter, tag, options; and for each member
/// its order.
constexpr int64_t kHeadBytes = 128, kOrderBytes = 5;
constexpr double kAckBytes = 64, kExposureMailBytes = 512;

Spread spread_of(std::string_view algorithm) {
  const Algorithm* const found = look_up_algorithm(Collective::kBcast, algorithm);
  return found == nullptr ? Spread::kOther : found->spec->spread;
}

int members_of(const MemberServers& servers) { return servers.before(servers.places()); }

int most_at_a_server(const MemberServers& servers) {
  size_t most = 0;
  for (int place = 0; place < servers.places(); ++place)
    most = std::max(most, servers.members(place).size());
  return static_cast<int>(most);
}

int64_t head_bytes(const MulticastBoundInputs& in) {
  return kHeadBytes + kOrderBytes * members_of(*in.servers) + static_cast<int64_t>(in.set_bytes);
}
/// Whether the data travel with the announcement.
bool fits_mail(const MulticastBoundInputs& in) {
  return head_bytes(in) + in.bytes <= in.mail_bytes;
}

/// Of a message of at least one byte.
int64_t mails_of(int64_t bytes, int64_t mail_bytes) {
  return (bytes + mail_bytes - 1) / mail_bytes;
}

/// The costs of a layer, for as many ranks a core as there are, on links that are shared.
class Layer {
 public:
  Layer(const LayerCosts& costs, double scale, double sharing)
      : costs_(costs), scale_(scale), sharing_(sharing) {}

  double hop(double bytes) const {
    return scale_ * (costs_.hop_us(0) + sharing_ * (costs_.hop_us(bytes) - costs_.hop_us(0)));
  }
  double gap(double bytes) const {
    return scale_ * (costs_.gap_us(0) + sharing_ * (costs_.gap_us(bytes) - costs_.gap_us(0)));
  }
  /// Of a message that takes as many mails as it needs.
  double mails(int64_t bytes, int64_t mail_bytes) const {
    const auto each = static_cast<double>(std::min(bytes, mail_bytes));
    return hop(each) + static_cast<double>(mails_of(bytes, mail_bytes) - 1) * gap(each);
  }
  double wake() const { return scale_ * costs_.wake_us(); }
  double delay() const { return costs_.known() ? scale_ * costs_.delay_us() : 0; }

 private:
  const LayerCosts& costs_;
  double scale_, sharing_;
};

/// What a bound is computed from.
class Multicast {
 public:
  Multicast(const LogP& logp, const MulticastBoundInputs& in, double scale)
      : in_(in),
        spread_(spread_of(in.algorithm)),
        local_(logp.local, scale, 1),
        network_(logp.network, scale, in.sharing),
        tree_{in.servers->places()},
        operation_(scale * logp.operation_us),
        most_local_(most_at_a_server(*in.servers)),
        members_(members_of(*in.servers)) {}

  MulticastBound bound() const {
    MulticastBound result;
    const int64_t head = head_bytes(in_);
    const bool fits = fits_mail(in_);
    const int64_t announced = fits ? head + in_.bytes : head;
    if (in_.master != MulticastBoundInputs::Master::kRoot)
      result.announcement = to_root().mails(announced, in_.mail_bytes) + to_root().wake();
    result.announcement += announce(announced);
    if (!fits) {
      result.exposures =
          expose() + operation_ * most_operations(in_.algorithm, in_.pieces, *in_.servers);
      result.feed = feed();
      result.distribution = distribute(result.exposures + result.feed);
    }
    result.acks = acknowledge(wakes(result.total(), network_));
    result.delay = std::max(local_.delay(), network_.delay());
    return result;
  }

 private:
  const Layer& to_root() const {
    return in_.master == MulticastBoundInputs::Master::kElsewhere ? network_ : local_;
  }
  double children(int place) const { return static_cast<double>(tree_.children(place).size()); }
  double others_at(int place) const {
    return static_cast<double>(in_.servers->members(place).size()) - 1;
  }
  int levels() const { return static_cast<int>(tree_.levels()); }
  /// What a message adds where its receiver has been waiting that long at most.
  double wakes(double waited_us, const Layer& layer) const {
    return waited_us > in_.awake_us ? layer.wake() : 0;
  }

  /// Down the binomial tree and to the others of each server. In whatever order a leader sends,
  /// each gets its message when all have been sent; before that the leader has read it.
  double announce(int64_t bytes) const {
    const auto mail = static_cast<double>(std::min(bytes, in_.mail_bytes));
    const auto count = static_cast<double>(mails_of(bytes, in_.mail_bytes));
    std::vector<double> come(static_cast<size_t>(tree_.places));
    double last = 0;
    for (int place = 0; place < tree_.places; ++place) {
      double sent = come[static_cast<size_t>(place)];
      if (children(place) > 0) sent += children(place) * count * network_.gap(mail);
      if (others_at(place) > 0) sent += others_at(place) * count * local_.gap(mail);
      for (const int child : tree_.children(place)) {
        come[static_cast<size_t>(child)] =
            sent + network_.mails(bytes, in_.mail_bytes) + network_.wake();
      }
      last = std::max(last, sent);
      if (others_at(place) > 0)
        last = std::max(last, sent + local_.mails(bytes, in_.mail_bytes) + local_.wake());
    }
    return last;
  }

  /// Up the same tree, from when all have the message, and to the master.
  double acknowledge(double wake) const {
    std::vector<double> below(static_cast<size_t>(tree_.places));
    for (int place = tree_.places - 1; place >= 0; --place) {
      double heard = 0;
      for (const int child : tree_.children(place))
        heard = std::max(heard, below[static_cast<size_t>(child)] + network_.hop(kAckBytes) + wake);
      if (children(place) > 0) heard += children(place) * network_.gap(kAckBytes);
      if (others_at(place) > 0)
        heard += local_.hop(kAckBytes) + others_at(place) * local_.gap(kAckBytes) + wake;
      below[static_cast<size_t>(place)] = heard;
    }
    if (in_.master == MulticastBoundInputs::Master::kRoot) return below[0];
    return below[0] + to_root().hop(kAckBytes) + wake;
  }

  /// Each tells those that will write to it where, and hears the same of those it writes to.
  double expose() const {
    double time = 0;
    if (in_.master != MulticastBoundInputs::Master::kRoot)
      time += to_root().hop(kExposureMailBytes) + to_root().gap(kExposureMailBytes);
    if (tree_.places == 1) return time;
    if (spread_ == Spread::kFromRoot) {  // non-leaders' go through a gateway of the root's server
      return time + network_.hop(kExposureMailBytes) + members_ * network_.gap(kExposureMailBytes) +
             (most_local_ > 1 ? local_.hop(kExposureMailBytes) : 0);
    }
    const double peers = 2.0 * levels() + 2;
    return time + network_.hop(kExposureMailBytes) + 2 * peers * network_.gap(kExposureMailBytes);
  }

  double feed() const {
    if (in_.master == MulticastBoundInputs::Master::kRoot) return 0;
    return to_root().hop(static_cast<double>(in_.bytes)) + (in_.pieces - 1) * to_root().gap(0);
  }

  /// To the other ranks of a server, of one part; and until the last of them has it.
  double hand_out(double bytes) const {
    return most_local_ > 1 ? (most_local_ - 1) * local_.gap(bytes) : 0;
  }
  double last_local(double bytes, double wake) const {
    return most_local_ > 1 ? local_.hop(bytes) + wake : 0;
  }

  /// `waited`: before the first part leaves.
  double distribute(double waited) const {
    // Leaders that have waited long sleep when their first part comes. With progress threads they
    // may sleep again before each.
    const double awake = spread(0, 0);
    const double wake = tree_.places > 1 ? wakes(waited + awake, network_) : 0;
    return spread(wake, wakes(waited + awake, local_));
  }

  double spread(double wake, double local_wake) const {
    const auto bytes = static_cast<double>(in_.bytes);
    if (spread_ == Spread::kFromRoot) {
      if (tree_.places == 1) return hand_out(bytes) + last_local(bytes, local_wake);
      return (members_ - 1) * network_.gap(bytes) + hand_out(bytes) + network_.hop(bytes) + wake;
    }
    const double piece = std::max(1.0, bytes / in_.pieces);
    if (tree_.places == 1) return in_.pieces * hand_out(piece) + last_local(piece, local_wake);
    if (spread_ == Spread::kChain) return stream(tree_.places - 1, 1, wake, local_wake);
    if (spread_ == Spread::kTree) return stream(levels(), levels(), wake, local_wake);
    if (spread_ == Spread::kCirculant) return circulant(piece, wake, local_wake);
    if (spread_ == Spread::kScatterRing) return scatter_ring(wake, local_wake);
    return scatter_doubling(wake, local_wake);
  }

  /// Piece by piece along trees of that depth, whose nodes send to so many: the first piece takes
  /// its way, then one leaves after the other, as fast as who has most to do gets rid of them.
  double stream(int depth, int degree, double wake, double local_wake) const {
    const double piece = std::max(1.0, static_cast<double>(in_.bytes) / in_.pieces);
    const double stage = (1 + degree) * network_.gap(piece) + hand_out(piece);
    return depth * (network_.hop(piece) + wake + stage) + (in_.pieces - 1) * stage +
           last_local(piece, local_wake);
  }

  /// In each round what came in the one before may go on.
  double circulant(double piece, double wake, double local_wake) const {
    const double round = network_.hop(piece) + network_.gap(piece) + hand_out(piece);
    const double rounds = in_.pieces - 1 + levels();
    return rounds * (round + each_wake()) + levels() * wake + hand_out(piece) +
           last_local(piece, local_wake);
  }

  /// Down a binomial tree of so many servers that get a part each: who sends to several sends to
  /// the one with most below it first.
  double scatter(int actors, double wake) const {
    const double part = static_cast<double>(in_.bytes) / actors;
    const BinomialTree tree{actors};
    std::vector<double> come(static_cast<size_t>(actors));
    double last = 0;
    for (int place = 0; place < actors; ++place) {
      double sent = come[static_cast<size_t>(place)];
      const std::vector<int> below = tree.children(place);
      sent += hand_out(part * (tree.end(place) - place));
      for (size_t i = below.size(); i-- > 0;) {
        const double bytes = part * (tree.end(below[i]) - below[i]);
        sent += network_.gap(bytes);
        come[static_cast<size_t>(below[i])] = sent + network_.hop(bytes) + wake;
      }
      last = std::max(last, sent);
    }
    return last;
  }

  double scatter_ring(double wake, double local_wake) const {
    const double part = std::max(1.0, static_cast<double>(in_.bytes) / tree_.places);
    const double round = network_.hop(part) + network_.gap(part) + hand_out(part);
    return scatter(tree_.places, wake) + (tree_.places - 1) * (round + each_wake()) +
           last_local(part, local_wake);
  }

  /// The odd ones of pairs get what the even ones got, one message behind them.
  double scatter_doubling(double wake, double local_wake) const {
    const int bits = std::bit_width(static_cast<unsigned>(tree_.places)) - 1, actors = 1 << bits;
    const bool pairs = actors != tree_.places;
    const double part = std::max(1.0, static_cast<double>(in_.bytes) / actors);
    double time = scatter(actors, wake), longest = part * actors / 2;
    const auto passed_on = [&](double bytes) { return pairs ? network_.gap(bytes) : 0; };
    time += passed_on(longest);
    for (int k = 0; k < bits; ++k) {
      const double bytes = part * (1 << k);
      time += network_.hop(bytes) + network_.gap(bytes) + passed_on(bytes) + hand_out(bytes) +
              each_wake();
    }
    if (pairs) time += network_.hop(longest) + hand_out(longest) + wake;
    return time + last_local(std::max(part, longest), local_wake);
  }

  /// Where ranks sleep whenever they wait: in each round.
  double each_wake() const { return in_.awake_us > 0 ? 0 : network_.wake(); }

  const MulticastBoundInputs& in_;
  const Spread spread_;
  const Layer local_, network_;
  const BinomialTree tree_;
  const double operation_;
  const int most_local_, members_;
};

}  // namespace

double most_operations(std::string_view algorithm, uint32_t pieces, const MemberServers& servers) {
  const int places = servers.places();
  // A part that arrives: its exposure, its arrival, its way on to one server or two, and to the
  // others of this one.
  const double a_part = most_at_a_server(servers) + 5, levels = BinomialTree{places}.levels();
  // Where parts lie on both sides of the end they are two; shapes take time by their ranks.
  const double shape = members_of(servers) + 2 * levels;
  const Spread spread = spread_of(algorithm);
  if (spread == Spread::kScatterRing) return shape + 2 * a_part * (places + levels);
  if (spread == Spread::kScatterDoubling) return shape + 2 * a_part * (2 * levels + 2);
  if (spread == Spread::kCirculant) return shape + a_part * (pieces + levels);
  return shape + a_part;
}

Result<MulticastBound> multicast_bound(const LogP& logp, const MulticastBoundInputs& inputs) {
  if (!fits_mail(inputs) && spread_of(inputs.algorithm) == Spread::kOther)
    return fail(ErrorCode::kUnsupported, "no bound is known of what the algorithm '{}' takes",
                inputs.algorithm);
  const bool far =
      inputs.servers->places() > 1 || inputs.master == MulticastBoundInputs::Master::kElsewhere;
  const bool near = inputs.master == MulticastBoundInputs::Master::kOnRootsServer ||
                    most_at_a_server(*inputs.servers) > 1;
  for (const auto& [needed, costs, layer] :
       {std::tuple(far, &logp.network, "network"), std::tuple(near, &logp.local, "shm")}) {
    if (needed && !costs->known())
      return fail(ErrorCode::kUnsupported,
                  "the costs of messages lack the layer '{}', which this set needs", layer);
  }
  const double scale = std::max(1.0, inputs.ranks_per_core / std::max(1.0, logp.ranks_per_core));
  return Multicast(logp, inputs, scale).bound();
}

}  // namespace ibcoll
