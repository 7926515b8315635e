#include "tests/multicast_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>

#include "engine/transport/open.h"

namespace ibcoll::testing {
namespace {

/// What stands in a letter: eight bytes at a time, none of which another letter has there.
uint64_t letter_word(const Letter& letter, size_t at) {
  uint64_t x = (letter.tag << 20 ^ static_cast<uint64_t>(letter.master)) * 0x9e3779b97f4a7c15 + at;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ x >> 29;
}

std::vector<std::byte> written(const Letter& letter) {
  std::vector<std::byte> data(letter.bytes);
  for (size_t at = 0; at < data.size(); at += 8) {
    const uint64_t word = letter_word(letter, at);
    std::memcpy(data.data() + at, &word, std::min<size_t>(8, data.size() - at));
  }
  return data;
}

/// Which of the members a rank is: they are counted by server, servers by their lowest member; the
/// master is the last.
int id_in(const ibcoll_context* context, const Letter& letter, int rank) {
  std::vector<int> servers, in_order;
  for (const int member : letter.members) {
    if (member == letter.master) continue;
    const int server = ibcoll_server_of(context, member);
    if (std::find(servers.begin(), servers.end(), server) == servers.end())
      servers.push_back(server);
  }
  for (const int server : servers) {
    for (const int member : letter.members) {
      if (member != letter.master && ibcoll_server_of(context, member) == server)
        in_order.push_back(member);
    }
  }
  in_order.push_back(letter.master);
  return static_cast<int>(std::find(in_order.begin(), in_order.end(), rank) - in_order.begin());
}

}  // namespace

bool MulticastWay::is_usable() const {
  return !is_over_verbs() || usable_network_port(transport).has_value();
}

JobSettings::JobSettings(std::map<std::string, std::string> settings)
    : settings_(std::move(settings)) {
  for (const auto& [name, value] : settings_) setenv(name.c_str(), value.c_str(), 1);
}

JobSettings::~JobSettings() {
  for (const auto& [name, value] : settings_) unsetenv(name.c_str());
}

std::string run_multicasts(const MulticastWay& way, std::map<std::string, std::string> settings,
                           const std::function<void(const ApiRank&)>& body, int* status) {
  settings["IBCOLL_TRANSPORT"] = way.transport;
  settings["IBCOLL_LOOPBACK_SEED"] = std::to_string(way.loopback_seed);
  // Whole machines stall for longer than the default bears where a host is overloaded.
  if (way.is_over_verbs()) setenv("IBCOLL_ACK_TIMEOUT", "18", 0);
  const JobSettings in_force(std::move(settings));
  const auto limited = [&](const ApiRank& rank) {
    alarm(way.limit_s());
    body(rank);
    alarm(0);
  };
  if (!way.on_machines) return launched(way.layout, way.ranks, limited, status, way.placement);
  JoinedRun run;
  std::istringstream layout(way.layout);
  std::string server;
  for (int machine = 0; std::getline(layout, server, ','); ++machine)
    run.machines.insert(run.machines.end(), std::stoul(server), machine);
  run.to_die.resize(run.machines.size());
  std::iota(run.to_die.begin(), run.to_die.end(), 0);
  run.limit_s = static_cast<int>(way.limit_s());
  return joined(run, limited);
}

std::vector<uint64_t> Letter::bitmap() const {
  std::vector<uint64_t> words(static_cast<size_t>(members.back()) / 64 + 1);
  for (const int member : members) words[member / 64] |= uint64_t{1} << (member % 64);
  return words;
}

std::string Letter::describe() const {
  return fmt::format("letter {} of rank {} ({} bytes, to {})", tag, master, bytes,
                     fmt::join(members, ","));
}

std::string wrong_in(const ApiRank& rank, const ibcoll_message& message, const Letter& letter) {
  const auto differs = [&](const char* what, uint64_t is, uint64_t should) {
    return fmt::format("{}: its {} is {}, not {}", letter.describe(), what, is, should);
  };
  const auto id = static_cast<uint64_t>(id_in(rank.context, letter, ibcoll_rank(rank.context)));
  if (message.tag != letter.tag) return differs("tag", message.tag, letter.tag);
  if (message.master != letter.master) return differs("master", message.master, letter.master);
  if (message.bytes != letter.bytes) return differs("length", message.bytes, letter.bytes);
  if (message.members != static_cast<int>(letter.members.size()))
    return differs("number of members", message.members, letter.members.size());
  if (message.id != static_cast<int>(id)) return differs("id", message.id, id);
  if (message.reserved != 0) return differs("reserved", message.reserved, 0);
  if (message.data == nullptr || reinterpret_cast<uintptr_t>(message.data) % 64 != 0)
    return letter.describe() + ": its address is null or not aligned";
  const auto* const data = static_cast<const std::byte*>(message.data);
  for (size_t at = 0; at < letter.bytes; at += 8) {
    const uint64_t word = letter_word(letter, at);
    if (std::memcmp(data + at, &word, std::min<size_t>(8, letter.bytes - at)) != 0)
      return fmt::format("{}: wrong data from byte {} on", letter.describe(), at);
  }
  return "";
}

SentLetter::SentLetter(const ApiRank& rank, const Letter& letter)
    : rank_(rank), letter_(letter), data_(written(letter)) {}

SentLetter::~SentLetter() {
  if (request_ != nullptr) rank_.good(ibcoll_call_free(request_), "free a request");
}

ibcoll_status SentLetter::start(ibcoll_multicast_options options) {
  options.tag = letter_.tag;
  const auto words = letter_.bitmap();
  return ibcoll_multicast(rank_.context, words.data(), words.size(), data_.data(), data_.size(),
                          &options, &request_);
}

bool SentLetter::start_sometime(const ibcoll_multicast_options& options) {
  ibcoll_status status = start(options);
  while (status == IBCOLL_ERR_BUSY) {
    if (!rank_.good(ibcoll_progress(rank_.context, nullptr), "progress")) return false;
    status = start(options);
  }
  return rank_.good(status, "send " + letter_.describe());
}

ibcoll_status SentLetter::send(ibcoll_multicast_options options) {
  options.tag = letter_.tag;
  const auto words = letter_.bitmap();
  const ibcoll_status status = ibcoll_multicast(rank_.context, words.data(), words.size(),
                                                data_.data(), data_.size(), &options, nullptr);
  if (status != IBCOLL_ERR_BUSY) spoil();
  return status;
}

ibcoll_status SentLetter::wait() {
  const ibcoll_status status = ibcoll_wait(request_);
  spoil();
  return status;
}

ibcoll_status SentLetter::test(int& done) {
  const ibcoll_status status = ibcoll_test(request_, &done);
  if (done != 0) spoil();
  return status;
}

std::vector<int> SentLetter::missing() const {
  int count = -1;
  std::vector<int> ranks(static_cast<size_t>(ibcoll_size(rank_.context)));
  rank_.good(ibcoll_multicast_missing(request_, ranks.data(), ibcoll_size(rank_.context), &count),
             "ask who lacks " + letter_.describe());
  ranks.resize(static_cast<size_t>(count));
  return ranks;
}

void SentLetter::spoil() { std::fill(data_.begin(), data_.end(), kPoison); }

ibcoll_multicast_options acknowledged() {
  ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
  options.acknowledged = 1;
  return options;
}

bool receive(const ApiRank& rank, const Letter& letter) {
  const ibcoll_message* message = nullptr;
  if (!rank.good(ibcoll_multicast_receive(rank.context, -1, &message), letter.describe()))
    return false;
  if (message == nullptr) {
    rank.complain(letter.describe() + " has not come");
    return false;
  }
  const std::string wrong = wrong_in(rank, *message, letter);
  if (!wrong.empty()) rank.complain(wrong);
  rank.good(ibcoll_message_free(rank.context, message), "free a message");
  return wrong.empty();
}

ibcoll_multicast_counters multicast_counters(const ApiRank& rank) {
  ibcoll_multicast_counters counters = IBCOLL_MULTICAST_COUNTERS_INIT;
  rank.good(ibcoll_multicast_get_counters(rank.context, &counters), "counters");
  return counters;
}

bool meet(const ApiRank& rank) {
  return rank.good(ibcoll_barrier(ibcoll_world(rank.context), nullptr), "barrier");
}

void expect_number(const ApiRank& rank, const char* what, uint64_t is, uint64_t should) {
  if (is != should) rank.complain(fmt::format("{} is {}, not {}", what, is, should));
}

void expect(const ApiRank& rank, ibcoll_status status, ibcoll_status wanted,
            const std::string& text) {
  const std::string line = status == IBCOLL_OK ? "no error" : ibcoll_last_error();
  if (status != wanted || ibcoll_last_error_scope() != IBCOLL_SCOPE_CALL ||
      line.find(text) == std::string::npos)
    rank.complain(fmt::format("not \"{}\", but {} (scope {}): {}", text, static_cast<int>(status),
                              static_cast<int>(ibcoll_last_error_scope()), line));
}

void expect_no_memory(const ApiRank& rank) {
  for (int i = 0; i < 10'000 && multicast_counters(rank).memory_bytes != 0; ++i) {
    if (!rank.good(ibcoll_progress(rank.context, nullptr), "progress")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  expect_number(rank, "memory in use", multicast_counters(rank).memory_bytes, 0);
}

void OnMulticastWays::run(const std::function<void(const ApiRank&)>& body,
                          const std::map<std::string, std::string>& settings) {
  if (!GetParam().is_usable()) GTEST_SKIP() << kNoDevice;
  flags_ = &SharedFlags::create();
  EXPECT_EQ(run_multicasts(GetParam(), settings, body), "");
}

std::vector<int> OnMulticastWays::all() {
  std::vector<int> ranks(static_cast<size_t>(OnMulticastWays::ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace ibcoll::testing
