#include "tools/ib_mcast_bench/messages.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ibcoll::tools {
namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;

uint64_t first_word(int master, uint64_t tag) {
  return measure::SetRandom(tag * 64 + static_cast<uint64_t>(master)).next();
}

}  // namespace

uint64_t McastTag::word() const {
  return uint64_t{phase} << 48 | uint64_t{order} << 24 | uint64_t{send};
}

McastTag McastTag::of(uint64_t word) {
  return {static_cast<uint32_t>(word >> 48), static_cast<uint32_t>(word >> 24 & 0xffffff),
          static_cast<uint32_t>(word & 0xffffff)};
}

void fill_message(std::span<std::byte> data, int master, uint64_t tag) {
  uint64_t word = first_word(master, tag);
  for (; !data.empty(); word += kOdd) {
    const size_t length = std::min(data.size(), sizeof word);
    std::memcpy(data.data(), &word, length);
    data = data.subspan(length);
  }
}

int64_t first_difference(std::span<const std::byte> data, int master, uint64_t tag) {
  uint64_t word = first_word(master, tag);
  for (size_t at = 0; at < data.size(); at += sizeof word, word += kOdd) {
    const size_t length = std::min(data.size() - at, sizeof word);
    if (std::memcmp(data.data() + at, &word, length) == 0) continue;
    std::byte expected[sizeof word];
    std::memcpy(expected, &word, sizeof word);
    for (size_t i = 0; i < length; ++i)
      if (data[at + i] != expected[i]) return static_cast<int64_t>(at + i);
  }
  return -1;
}

std::vector<uint64_t> bitmap_of(const std::vector<int>& members, int ranks) {
  std::vector<uint64_t> words((static_cast<size_t>(ranks) + 63) / 64);
  for (const int rank : members) words[static_cast<size_t>(rank) / 64] |= uint64_t{1} << rank % 64;
  return words;
}

McastReceiver::McastReceiver(const ibcoll_context* context, const McastSettings& settings)
    : context_(context), settings_(settings), me_(ibcoll_rank(context)) {}

void McastReceiver::begin(uint32_t phase, int64_t bytes,
                          const std::vector<std::vector<std::vector<int>>>& sets) {
  phase_ = phase;
  bytes_ = bytes;
  sets_ = &sets;
  expected_ = received_ = 0;
  for (const auto& of_master : sets) {
    for (const std::vector<int>& members : of_master)
      if (std::binary_search(members.begin(), members.end(), me_))
        expected_ += settings_.repeat ? 2 : 1;
  }
  last_order_.assign(sets.size(), -1);
  has_come_.assign(sets.size(), std::vector<bool>(static_cast<size_t>(settings_.sends())));
}

void McastReceiver::take(const ibcoll_message& message) {
  ++received_;
  if (wrong_.empty()) wrong_ = difference(message);
}

/// Members are counted by server, servers by their lowest member.
int McastReceiver::id_of(const std::vector<int>& members) const {
  std::vector<int> servers;
  int id = 0;
  const int mine = ibcoll_server_of(context_, me_);
  for (const int rank : members) {
    const int server = ibcoll_server_of(context_, rank);
    if (std::find(servers.begin(), servers.end(), server) == servers.end())
      servers.push_back(server);
  }
  for (const int server : servers) {
    for (const int rank : members) {
      if (ibcoll_server_of(context_, rank) != server) continue;
      if (server == mine && rank == me_) return id;
      ++id;
    }
  }
  return -1;
}

std::string McastReceiver::difference(const ibcoll_message& message) {
  const McastTag tag = McastTag::of(message.tag);
  const auto of = [&](const std::string& what) {
    return fmt::format("rank {}: multicast {} of rank {} with {} bytes: {}", me_, tag.send,
                       message.master, message.bytes, what);
  };
  if (message.master < 0 || message.master >= settings_.masters) return of("that is no master");
  if (tag.phase != phase_ || static_cast<int>(tag.send) >= settings_.sends())
    return of(fmt::format("its tag {:#x} is none of those sent now", message.tag));
  const auto master = static_cast<size_t>(message.master);
  const std::vector<int>& members = (*sets_)[master][tag.send / (settings_.repeat ? 2 : 1)];
  if (!std::binary_search(members.begin(), members.end(), me_)) return of("this rank is no member");
  if (has_come_[master][tag.send]) return of("it has come before");
  has_come_[master][tag.send] = true;
  if (static_cast<int64_t>(tag.order) <= last_order_[master])
    return of(fmt::format("sent as number {}, but comes after number {}", tag.order,
                          last_order_[master]));
  last_order_[master] = tag.order;
  if (static_cast<int64_t>(message.bytes) != bytes_)
    return of(fmt::format("{} bytes were sent", bytes_));
  if (!settings_.check) return "";
  if (message.members != static_cast<int>(members.size()))
    return of(fmt::format("it says {} members instead of {}", message.members, members.size()));
  if (const int id = id_of(members); message.id != id)
    return of(fmt::format("it says logical id {} instead of {}", message.id, id));
  const int64_t at = first_difference({static_cast<const std::byte*>(message.data), message.bytes},
                                      message.master, message.tag);
  return at < 0 ? "" : of(fmt::format("byte {} differs from what was sent", at));
}

Status McastReceiver::wrong() const {
  if (wrong_.empty()) return {};
  return fail(ErrorCode::kInternal, "{}", wrong_);
}

}  // namespace ibcoll::tools
