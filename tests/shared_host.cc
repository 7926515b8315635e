#include "tests/shared_host.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace ibcoll::testing {

SharedHost& SharedHost::create() {
  void* const memory =
      mmap(nullptr, sizeof(SharedHost), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) SharedHost;
}

ibcoll_bootstrap SharedHost::Member::blocking() {
  ibcoll_bootstrap given = named();
  given.allgather = [](void* self, const void* mine, size_t bytes, void* all) {
    auto& member = *static_cast<Member*>(self);
    if (const int error = member.post(mine, bytes, all); error != 0) return error;
    while (!member.test()) sched_yield();
    return 0;
  };
  return given;
}

ibcoll_bootstrap SharedHost::Member::posting() {
  ibcoll_bootstrap given = named();
  given.allgather_post = [](void* self, const void* mine, size_t bytes, void* all, void** request) {
    *request = self;
    return static_cast<Member*>(self)->post(mine, bytes, all);
  };
  given.allgather_test = [](void* self, void* request, int* done) {
    if (request != self) return 99;
    *done = static_cast<Member*>(self)->test() ? 1 : 0;
    return 0;
  };
  return given;
}

ibcoll_bootstrap SharedHost::Member::named() {
  ibcoll_bootstrap given{};
  given.struct_size = sizeof given;
  given.rank = rank_;
  given.size = size_;
  given.host = this;
  return given;
}

int SharedHost::Member::post(const void* mine, size_t bytes, void* all) {
  if (bytes > kBytes || size_ > kRanks) return 98;
  std::memcpy(host_->slots_[calls_ % 2][rank_], mine, bytes);
  all_ = static_cast<char*>(all);
  bytes_ = bytes;
  ++calls_;
  ++host_->posted_;
  return 0;
}

bool SharedHost::Member::test() {
  if (host_->posted_ < calls_ * size_) return false;
  for (int rank = 0; rank < size_; ++rank) {
    std::memcpy(all_ + static_cast<size_t>(rank) * bytes_, host_->slots_[(calls_ - 1) % 2][rank],
                bytes_);
  }
  return true;
}

std::string run_ranks(int ranks, const std::function<std::string(int rank)>& main, int victim) {
  Complaints complaints(ranks);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      alarm(60);
      complaints.add(rank, main(rank));
      _exit(0);
    }
    processes.push_back(process);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(processes[rank], &status, 0);
    if (WIFSIGNALED(status) && rank != victim)
      complaints.add(rank, fmt::format("ended by signal {}", WTERMSIG(status)));
  }
  return complaints.all();
}

std::string exchange(ibcoll_group* group, int call, size_t numbers) {
  const int me = ibcoll_group_rank(group), ranks = ibcoll_group_size(group);
  // Unsigned, as there may be more calls than an int has room for; then they come round again.
  const auto number = [&](int from, int to, size_t i) {
    return ((static_cast<uint32_t>(call) * 64 + static_cast<uint32_t>(from)) * 64 +
            static_cast<uint32_t>(to)) *
               1000 +
           static_cast<uint32_t>(i % 1000);
  };
  std::vector<uint32_t> send, recv(numbers * static_cast<size_t>(ranks), ~0U);
  for (int to = 0; to < ranks; ++to)
    for (size_t i = 0; i < numbers; ++i) send.push_back(number(me, to, i));
  if (ibcoll_alltoall(group, send.data(), recv.data(), numbers * sizeof(uint32_t), nullptr) !=
      IBCOLL_OK)
    return ibcoll_last_error();
  for (int from = 0; from < ranks; ++from) {
    for (size_t i = 0; i < numbers; ++i) {
      if (recv[static_cast<size_t>(from) * numbers + i] != number(from, me, i))
        return fmt::format("number {} from rank {} is wrong", i, from);
    }
  }
  return "";
}

}  // namespace ibcoll::testing
