// How regions come about: all ranks say what they want, and the lowest rank of each region makes it
// and passes it on to the others.

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/region_mailbox.h"
#include "engine/bootstrap/shared_mapping.h"
#include "engine/bootstrap/shared_region.h"

namespace ibcoll {

namespace {

/// What each rank tells the others when regions are made: these words, then two for each region.
enum OfferWord : size_t { kMachine, kMailbox, kUnready = kMailbox + 2, kRegions };
enum RegionWord : size_t { kColour, kBytes, kRegionWords };

/// How it went for a rank.
struct Outcome {
  int16_t code = 0;
  uint16_t region = 0;  ///< in which it has failed
};

/// The mappings that threads of this process are about to share.
class ThreadMappings {
 public:
  /// Keeps a mapping until `takers` threads have taken it; the ticket to take it with.
  uint64_t put(std::shared_ptr<SharedMapping> mapping, size_t takers) {
    const std::lock_guard lock(mutex_);
    ++last_ticket_;
    if (takers > 0) waiting_.emplace(last_ticket_, Waiting{std::move(mapping), takers});
    return last_ticket_;
  }
  std::shared_ptr<SharedMapping> take(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(ticket);
    std::shared_ptr<SharedMapping> mapping = found->second.mapping;
    if (--found->second.takers == 0) waiting_.erase(found);
    return mapping;
  }

 private:
  struct Waiting {
    std::shared_ptr<SharedMapping> mapping;
    size_t takers = 0;
  };
  std::mutex mutex_;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Waiting> waiting_;
};

ThreadMappings& thread_mappings() {
  static ThreadMappings mappings;
  return mappings;
}

}  // namespace

/// One rank's part of making regions: the lowest rank of each makes it and passes it on.
class SharedRegion::Maker {
 public:
  Maker(Bootstrap& bootstrap, std::span<const Request> requests)
      : bootstrap_(bootstrap),
        requests_(requests),
        me_(bootstrap.rank()),
        threads_(bootstrap.shares_address_space()),
        regions_(requests.size()),
        members_(requests.size()) {}

  Result<std::vector<SharedRegion>> make() {
    IBCOLL_TRY(exchange_offers());
    // From here on all ranks, of whatever colours, make the same collective calls whatever fails.
    if (threads_) {
      IBCOLL_TRY(make_among_threads());
    } else {
      for (size_t i = 0; i < regions_.size(); ++i)
        if (can_be_made(i)) is_led(i) ? make_and_send(i) : receive(i);
    }
    IBCOLL_TRY(agree());
    return std::move(regions_);
  }

 private:
  size_t words() const { return kRegions + kRegionWords * requests_.size(); }
  uint64_t offered(Rank rank, size_t word) const {
    return offers_[static_cast<size_t>(rank) * words() + word];
  }
  uint64_t offered(Rank rank, size_t region, RegionWord word) const {
    return offered(rank, kRegions + kRegionWords * region + word);
  }
  MailboxName mailbox_of(Rank rank) const {
    return {offered(rank, kMailbox), offered(rank, kMailbox + 1)};
  }
  bool takes_part(size_t region) const { return !members_[region].empty(); }
  bool is_led(size_t region) const { return members_[region].front() == me_; }

  Status exchange_offers() {
    const auto first = std::find_if(requests_.begin(), requests_.end(),
                                    [](const Request& request) { return request.colour >= 0; });
    if (first != requests_.end() && !threads_)
      note(static_cast<size_t>(first - requests_.begin()), mailbox_.open());
    std::vector<uint64_t> mine{this_machine().low, mailbox_.name()[0], mailbox_.name()[1],
                               status_ ? 0U : 1U};
    for (const Request& request : requests_) {
      mine.push_back(static_cast<uint64_t>(request.colour));
      mine.push_back(request.bytes);
    }
    offers_.resize(static_cast<size_t>(bootstrap_.size()) * words());
    IBCOLL_TRY(bootstrap_.allgather(mine.data(), words() * sizeof(uint64_t), offers_.data()));
    for (size_t i = 0; i < requests_.size(); ++i) {
      const int colour = requests_[i].colour;
      for (Rank rank = 0; colour >= 0 && rank < bootstrap_.size(); ++rank)
        if (offered(rank, i, kColour) == static_cast<uint64_t>(colour)) members_[i].push_back(rank);
    }
    return {};
  }

  /// Only the first failure counts.
  void note(size_t region, Status status) {
    if (!status_ || status) return;
    status_ = std::move(status);
    failed_ = region;
  }

  /// Whether the members of a region go on with it: the same on all of them.
  bool can_be_made(size_t region) {
    if (!takes_part(region)) return false;
    for (const Rank member : members_[region])
      if (offered(member, kUnready) != 0) return false;  // which that one says itself
    Status offers = check_offers(region);
    const bool match = offers.has_value();
    note(region, std::move(offers));
    return match;
  }

  Status check_offers(size_t region) const {
    const std::vector<Rank>& members = members_[region];
    const Rank first = members.front();
    const uint64_t bytes = offered(first, region, kBytes);
    for (const Rank member : members) {
      if (offered(member, region, kBytes) != bytes && !requests_[region].smallest) {
        return fail(ErrorCode::kMismatch, "rank {} wants shared memory of {} bytes, rank {} of {}",
                    first, bytes, member, offered(member, region, kBytes));
      }
      if (offered(member, kMachine) != offered(first, kMachine)) {
        return fail(ErrorCode::kSystem,
                    "ranks {} and {} can't share memory: they are on different machines or in "
                    "different containers",
                    first, member);
      }
    }
    if (bytes_of(region) == 0) return fail(ErrorCode::kInvalidArgument, "shared memory of 0 bytes");
    return {};
  }

  size_t bytes_of(size_t region) const {
    size_t bytes = requests_[region].bytes;
    for (const Rank member : members_[region])
      bytes = std::min<size_t>(bytes, offered(member, region, kBytes));
    return bytes;
  }

  Status prepare(size_t region, Result<std::shared_ptr<SharedMapping>> mapping) {
    if (!mapping) return tl::unexpected<Error>(std::move(mapping.error()));
    regions_[region] = SharedRegion(std::move(*mapping));
    const auto& prepare = requests_[region].prepare;
    return prepare ? prepare(regions_[region]) : Status();
  }

  /// Not where something has failed before.
  void make_own(size_t region) {
    if (!status_) return;
    note(region, prepare(region, SharedMapping::make(bytes_of(region), requests_[region].name)));
  }

  /// The others wait, whatever has failed here.
  void make_and_send(size_t region) {
    make_own(region);
    for (const Rank member : members_[region]) {
      if (member == me_) continue;
      Status sent = mailbox_.send(bootstrap_, mailbox_of(member), static_cast<int>(region), status_,
                                  regions_[region].fd());
      if (sent) continue;
      bootstrap_.abort(
          {me_, sent.error().code, sent.error().message});  // or it would wait for ever
      return note(region, std::move(sent));
    }
  }

  void receive(size_t region) {
    if (!status_) return;
    Result<UniqueFd> memory = mailbox_.receive(bootstrap_, static_cast<int>(region));
    note(region, memory ? prepare(region, SharedMapping::map(std::move(*memory), bytes_of(region)))
                        : tl::unexpected<Error>(std::move(memory.error())));
  }

  /// Threads share one mapping of a region.
  Status make_among_threads() {
    std::vector<uint64_t> mine(regions_.size()), all(regions_.size() * bootstrap_.size());
    std::vector<bool> wanted(regions_.size());
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (!can_be_made(i)) continue;
      wanted[i] = !is_led(i);
      if (wanted[i]) continue;
      make_own(i);
      if (status_) mine[i] = thread_mappings().put(regions_[i].mapping_, members_[i].size() - 1);
    }
    IBCOLL_TRY(bootstrap_.allgather(mine.data(), mine.size() * sizeof(uint64_t), all.data()));
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (!wanted[i]) continue;
      const Rank leader = members_[i].front();
      const uint64_t ticket = all[static_cast<size_t>(leader) * regions_.size() + i];
      if (ticket == 0) {
        note(i, fail(ErrorCode::kPeerFailed, "rank {} has made no shared memory", leader));
        continue;
      }
      note(i, prepare(i, thread_mappings().take(ticket)));
    }
    return {};
  }

  /// One outcome for all members: the lowest rank's error, if there is one. Texts are exchanged
  /// where some rank has failed only.
  Status agree() {
    Outcome mine;
    if (!status_)
      mine = {static_cast<int16_t>(status_.error().code), static_cast<uint16_t>(failed_)};
    std::vector<Outcome> outcomes(static_cast<size_t>(bootstrap_.size()));
    IBCOLL_TRY(bootstrap_.allgather(&mine, sizeof mine, outcomes.data()));
    if (std::all_of(outcomes.begin(), outcomes.end(),
                    [](const Outcome& outcome) { return outcome.code == 0; }))
      return {};
    IBCOLL_ASSIGN(const std::vector<Status> statuses, exchange_errors(bootstrap_, status_));
    for (size_t i = 0; i < regions_.size(); ++i) {
      for (const Rank member : members_[i]) {
        const auto rank = static_cast<size_t>(member);
        const bool failed = outcomes[rank].region == i || offered(member, kUnready) != 0;
        if (outcomes[rank].code != 0 && failed) return statuses[rank];
      }
    }
    return {};
  }

  Bootstrap& bootstrap_;
  const std::span<const Request> requests_;
  const Rank me_;
  const bool threads_;
  RegionMailbox mailbox_;
  std::vector<SharedRegion> regions_;
  std::vector<uint64_t> offers_;            ///< of all ranks
  std::vector<std::vector<Rank>> members_;  ///< of each region that this rank takes part in
  Status status_;
  size_t failed_ = 0;  ///< the region of status_
};

Result<std::vector<SharedRegion>> SharedRegion::create_all(Bootstrap& bootstrap,
                                                           std::span<const Request> requests) {
  return Maker(bootstrap, requests).make();
}

Result<SharedRegion> SharedRegion::create(Bootstrap& bootstrap, const Request& request) {
  IBCOLL_ASSIGN(std::vector<SharedRegion> regions, create_all(bootstrap, {&request, 1}));
  return std::move(regions.front());
}

size_t SharedRegion::longest_record(size_t regions) {
  return (kRegions + kRegionWords * regions) * sizeof(uint64_t);
}

/// The members are one more number each, where all share all regions.
size_t SharedRegion::start_bytes_each_rank(size_t regions) {
  return longest_record(regions) + sizeof(Outcome) + regions * sizeof(Rank);
}

}  // namespace ibcoll
