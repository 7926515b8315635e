#include "engine/multicast/role.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/algorithms/server_tree.h"
#include "engine/multicast/numbers.h"

namespace ibcoll {
namespace {

constexpr uint32_t kRelativesKinds = 3;

}  // namespace

MemberServers::MemberServers(const RankSet& set, const Shape& job) {
  std::unordered_map<int, int> place_of;  // by server
  std::vector<int> sizes;
  set.for_each([&](Rank rank) {
    const auto [at, is_new] = place_of.emplace(job.server_of(rank), static_cast<int>(sizes.size()));
    if (is_new) sizes.push_back(0);
    ++sizes[at->second];
  });
  first_.push_back(0);
  for (const int size : sizes) first_.push_back(first_.back() + size);
  std::vector<int> next(first_.begin(), first_.end() - 1);
  members_.resize(set.size());
  set.for_each([&](Rank rank) { members_[next[place_of.at(job.server_of(rank))]++] = rank; });
}

RankSet MemberServers::set_of(int first, int end) const {
  const std::span<const Rank> members(members_.data() + first_[first],
                                      static_cast<size_t>(first_[end] - first_[first]));
  // They are distinct and within range, since they come from a set.
  return *RankSet::create(members, *std::max_element(members.begin(), members.end()) + 1);
}

MulticastRole root_role(const RankSet& set, const Shape& job, Relatives relatives) {
  const MemberServers servers(set, job);
  MulticastRole role;
  role.relatives = relatives;
  role.members = set.size();
  role.servers = servers.places();
  if (relatives == Relatives::kRing) {
    role.previous = servers.leader(servers.places() - 1);
    role.after = servers.leader(0);
  }
  role.known = set;
  return role;
}

MulticastPart::MulticastPart(const MulticastRole& role, MemberServers known, int own)
    : role_(role), known_(std::move(known)), own_(own) {}

Result<MulticastPart> MulticastPart::create(const MulticastRole& role, const Shape& job) {
  MemberServers known(role.known, job);
  const bool all = role.relatives == Relatives::kEverybody;
  const int end = BinomialTree{role.servers}.end(role.place);
  const int places = all ? role.servers : end - role.place;
  const int members = role.known.size();
  const bool whole = all || (role.place == 0 && end == role.servers);
  if (known.places() != places ||
      (whole ? members != role.members : role.first_id + members > role.members) ||
      (all && known.before(role.place) != role.first_id)) {
    return fail(ErrorCode::kMismatch,
                "a role at place {} of {} that knows {} members on {} servers, of {} in all",
                role.place, role.servers, members, known.places(), role.members);
  }
  return MulticastPart(role, std::move(known), all ? role.place : 0);
}

std::vector<int> MulticastPart::children() const {
  return BinomialTree{role_.servers}.children(role_.place);
}

MulticastRole MulticastPart::child(int place) const {
  const int end = BinomialTree{role_.servers}.end(place);
  const int at = own_ + place - role_.place, end_at = own_ + end - role_.place;
  MulticastRole role = role_;
  role.place = place;
  role.first_id = role_.first_id + known_.before(at) - known_.before(own_);
  if (role_.relatives == Relatives::kEverybody) return role;
  role.known = known_.set_of(at, end_at);
  if (role_.relatives != Relatives::kRing) return role;
  role.previous = known_.leader(at - 1);
  if (end_at < known_.places()) role.after = known_.leader(end_at);
  return role;
}

RankSet MulticastPart::below(int place) const {
  return known_.set_of(own_ + place - role_.place,
                       own_ + BinomialTree{role_.servers}.end(place) - role_.place);
}

void MulticastPart::name_leaders(std::vector<Rank>& by_place) const {
  const int first = role_.place - own_;
  for (int at = 0; at < known_.places(); ++at) by_place[first + at] = known_.leader(at);
  if (role_.relatives != Relatives::kRing) return;
  by_place[(role_.place + role_.servers - 1) % role_.servers] = role_.previous;
  by_place[(role_.place + 1) % role_.servers] = next();
}

Rank MulticastPart::next() const {
  return own_ + 1 < known_.places() ? known_.leader(own_ + 1) : role_.after;
}

void encode(const MulticastRole& role, std::vector<std::byte>& out) {
  out.push_back(static_cast<std::byte>(role.relatives));
  for (const int number : {role.members, role.servers, role.place, role.first_id}) {
    append_number(out, static_cast<uint32_t>(number));
  }
  if (role.relatives == Relatives::kRing) {
    append_number(out, static_cast<uint32_t>(role.previous));
    append_number(out, static_cast<uint32_t>(role.after));
  }
  role.known.encode(out);
}

Result<MulticastRole> decode_role(std::span<const std::byte>& in, int ranks) {
  if (in.empty() || static_cast<uint32_t>(in.front()) >= kRelativesKinds) {
    return fail(ErrorCode::kMismatch, "a role that can't be right: {}",
                in.empty() ? "the message ends before it" : "it names unknown relatives");
  }
  std::span<const std::byte> rest = in.subspan(1);
  MulticastRole role;
  role.relatives = static_cast<Relatives>(in.front());
  const auto take = [&](int& number, int limit, const char* what) -> Status {
    IBCOLL_ASSIGN(const uint32_t value, take_number(rest, static_cast<uint32_t>(limit), what));
    number = static_cast<int>(value);
    return {};
  };
  IBCOLL_TRY(take(role.members, ranks, "the number of members"));
  IBCOLL_TRY(take(role.servers, role.members, "the number of servers"));
  if (role.servers == 0) return fail(ErrorCode::kMismatch, "a role in a set of no servers");
  IBCOLL_TRY(take(role.place, role.servers - 1, "a place"));
  IBCOLL_TRY(take(role.first_id, role.members - 1, "a logical id"));
  if (role.first_id < role.place) {  // every place before has a member
    return fail(ErrorCode::kMismatch, "a role at place {} with logical id {}", role.place,
                role.first_id);
  }
  if (role.relatives == Relatives::kRing) {
    IBCOLL_TRY(take(role.previous, ranks - 1, "the rank before"));
    IBCOLL_TRY(take(role.after, ranks - 1, "the rank behind"));
  }
  IBCOLL_ASSIGN(role.known, RankSet::decode(rest, ranks));
  if (role.known.empty()) return fail(ErrorCode::kMismatch, "a role that knows no member");
  in = rest;
  return role;
}

}  // namespace ibcoll
