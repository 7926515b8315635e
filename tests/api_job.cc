#include "tests/api_job.h"

#include <fmt/format.h>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "engine/core/c_api.h"
#include "tests/forwarding_bootstrap.h"

namespace ibcoll::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/// Whose errors are told, as this process's rank; null in the test's own process.
Complaints* watched = nullptr;
int watched_rank = 0;
void complain_of_sanitizer() {
  // So short that a string needs no allocator.
  if (watched != nullptr) watched->add(watched_rank, "sanitizer error");
}
#endif

/// The rank complains where a sanitizer finds something, from here to its end: a test that means
/// its job to fail would take the status for its own.
void watch_for_sanitizer([[maybe_unused]] const ApiRank& rank) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  watched_rank = ibcoll_rank(rank.context);
  watched = &rank.complaints;
  __sanitizer_set_death_callback(complain_of_sanitizer);
#endif
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/// UBSan, which has no callback of its own, finds this by its name. In this file, so that whoever
/// calls launched() has it in the program, too.
extern "C" __attribute__((used, visibility("default"))) void __ubsan_on_report() {
  complain_of_sanitizer();
}
#endif

bool ApiRank::good(ibcoll_status status, const std::string& what) const {
  if (status != IBCOLL_OK) complain(what + ": " + ibcoll_last_error());
  return status == IBCOLL_OK;
}

std::string launched(const char* layout, int ranks, const std::function<void(const ApiRank&)>& body,
                     int* status, const char* placement, bool keep_survivors) {
  Complaints complaints(ranks);
  struct Argument {
    const std::function<void(const ApiRank&)>& body;
    Complaints& complaints;
  } argument{body, complaints};
  ibcoll_launch_options options = IBCOLL_LAUNCH_OPTIONS_INIT;
  options.ranks = ranks;
  options.layout = layout;
  options.placement = placement;
  options.keep_survivors = keep_survivors ? 1 : 0;
  int result = 0;
  const auto main = [](ibcoll_context* context, void* data) {
    const auto* to_run = static_cast<Argument*>(data);
    const ApiRank rank{context, to_run->complaints};
    watch_for_sanitizer(rank);
    to_run->body(rank);
    return 0;
  };
  if (ibcoll_launch(&options, main, &argument, &result) != IBCOLL_OK) return ibcoll_last_error();
  if (status != nullptr)
    *status = result;
  else if (result != 0 && complaints.all().empty())
    return fmt::format("a rank returned {}", result);
  return complaints.all();
}

std::string layout_of(const std::vector<int>& servers) {
  std::string layout;
  for (size_t first = 0, next = 0; first < servers.size(); first = next) {
    while (next < servers.size() && servers[next] == servers[first]) ++next;
    layout += fmt::format("{}{}", layout.empty() ? "" : ",", next - first);
  }
  return layout;
}

std::string joined(JoinedRun run, const std::function<void(const ApiRank&)>& body,
                   ibcoll_status end) {
  const std::vector<int>& machines = run.machines;
  run.only_kills = true;
  Complaints complaints(static_cast<int>(machines.size()));
  run.before = [layout = layout_of(machines), before = run.before](Rank rank) {
    setenv("IBCOLL_LAYOUT", layout.c_str(), 1);
    setenv("IBCOLL_TRANSPORT", "loopback", 1);
    if (before) before(rank);
  };
  const std::string wrong = run_joined(run, [&](Bootstrap& job) -> std::string {
    ibcoll_context* context = nullptr;
    if (c_api::enter(std::make_unique<ForwardingBootstrap>(job), false, {}, &context) != IBCOLL_OK)
      return ibcoll_last_error();
    const ApiRank rank{context, complaints};
    watch_for_sanitizer(rank);
    body(rank);
    // Nobody can wait for ranks that have died.
    const ibcoll_status left = ibcoll_finalize(context);
    const bool expected = left == IBCOLL_OK || left == IBCOLL_ERR_PEER_FAILED || left == end;
    return expected ? "" : ibcoll_last_error();
  });
  return complaints.all() + wrong;
}

ibcoll_group* group_of(const ApiRank& rank, const std::vector<int>& ranks, uint64_t id) {
  const ibcoll_group_options options{sizeof options, id};
  ibcoll_group* group = nullptr;
  rank.good(ibcoll_group_create_with(rank.context, ranks.data(), static_cast<int>(ranks.size()),
                                     &options, &group),
            "group");
  return group;
}

void ThreadsOf::add(std::function<std::string()> body) {
  const int number = static_cast<int>(threads_.size());
  Running& running = threads_.emplace_back();
  running.thread = std::thread([&running, body = std::move(body), number] {
    const std::string wrong = body();
    if (!wrong.empty()) running.wrong = fmt::format("thread {}: {}", number, wrong);
  });
}

void ThreadsOf::join_but_first() { join_from(std::next(threads_.begin())); }

void ThreadsOf::join_from(std::list<Running>::iterator from) {
  for (; from != threads_.end(); ++from) {
    if (!from->thread.joinable()) continue;
    from->thread.join();
    if (!from->wrong.empty()) rank_.complain(from->wrong);
  }
}

SharedFlags& SharedFlags::create() {
  void* const memory =
      mmap(nullptr, sizeof(SharedFlags), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) SharedFlags;
}

void SharedFlags::await(size_t flag, int times) const {
  while (raised_[flag] < times) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void SharedFlags::await(size_t flag, int times, int naps) const {
  for (; raised_[flag] < times && naps > 0; --naps)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace ibcoll::testing
