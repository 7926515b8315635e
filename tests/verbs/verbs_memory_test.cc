// Memory that the program registers itself, over verbs. Needs an RDMA device; tests/softroce brings
// one for each server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/job.h"
#include "verbs/device.h"

namespace ibcoll {
namespace {

using testing::Complaints;
using ::testing::HasSubstr;
using ::testing::Not;

class VerbsMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!verbs::usable_ports({})) GTEST_SKIP() << "no RDMA device here; ./run softroce brings some";
    setenv("IBCOLL_TRANSPORT", "verbs", 1);
  }
  void TearDown() override {
    unsetenv("IBCOLL_TRANSPORT");
    unsetenv("IBCOLL_REGISTRATIONS");
  }
  /// Runs `body` on a server for each rank; gives what the ranks complain of.
  static std::string run(int ranks, const std::function<void(context&, Complaints&)>& body) {
    Complaints complaints(ranks);
    std::string layout = "1";
    for (int i = 1; i < ranks; ++i) layout += ",1";
    const int status = launch(
        ranks,
        [&](context& own) {
          try {
            body(own, complaints);
          } catch (const std::exception& thrown) {
            complaints.add(own.rank(), thrown.what());
            throw;
          }
          return 0;
        },
        layout);
    if (status != 0 && complaints.all().empty()) return fmt::format("a rank returned {}", status);
    return complaints.all();
  }
};

uint64_t registrations(const context& own) {
  const char* name = nullptr;
  uint64_t value = 0;
  for (int i = 0; ibcoll_get_named_counter(own.handle(), i, &name, &value) == IBCOLL_OK; ++i) {
    if (std::string(name) == "registrations") return value;
  }
  return 0;
}

constexpr size_t kBlock = 9000;

/// An all-to-all with a byte of its own for each pair; false: something else came.
bool all_to_all(const context& own, std::span<std::byte> send, std::span<std::byte> recv) {
  const group world = own.world();
  for (size_t i = 0; i < send.size(); ++i)
    send[i] = testing::pattern(world.rank(), static_cast<Rank>(i / kBlock), 0, 1);
  world.alltoall<std::byte>(send, recv, {.algorithm = "two_level_ring"});
  for (size_t i = 0; i < recv.size(); ++i)
    if (recv[i] != testing::pattern(static_cast<Rank>(i / kBlock), world.rank(), 0, 1))
      return false;
  return true;
}

TEST_F(VerbsMemory, StaysRegisteredWhateverOtherCallsUse) {
  setenv("IBCOLL_REGISTRATIONS", "2", 1);  // that are kept beside it
  EXPECT_EQ(run(3,
                [](context& own, Complaints& complaints) {
                  const size_t bytes = static_cast<size_t>(own.size()) * kBlock;
                  std::vector<std::byte> memory(3 * bytes + 4000);
                  const std::span all(memory);
                  const registered_memory registered = own.register_memory(all);
                  const uint64_t before = registrations(own);
                  const auto inside = [&](size_t at) {
                    if (!all_to_all(own, all.subspan(2 * at + 1, bytes),
                                    all.subspan(2 * bytes - 2 * at + 3, bytes)))
                      complaints.add(own.rank(), "wrong data");
                  };
                  for (size_t i = 0; i < 10; ++i) inside(i);
                  if (const uint64_t more = registrations(own) - before; more != 0)
                    complaints.add(own.rank(), fmt::format("{} registrations", more));
                  // More than are kept.
                  std::vector<std::vector<std::byte>> others(10, std::vector<std::byte>(bytes));
                  for (size_t i = 0; i + 1 < others.size(); i += 2) {
                    if (!all_to_all(own, others[i], others[i + 1]))
                      complaints.add(own.rank(), "wrong data elsewhere");
                  }
                  const uint64_t elsewhere = registrations(own);
                  if (elsewhere == before)
                    complaints.add(own.rank(), "this test sees no registrations");
                  for (size_t i = 10; i < 20; ++i) inside(i);
                  if (registrations(own) != elsewhere)
                    complaints.add(own.rank(), "registered again");
                }),
            "");
}

/// Their peers would be refused, and told no more than that.
TEST_F(VerbsMemory, BuffersThatCanOnlyBeReadAreRefusedWhereTheyAre) {
  for (const bool registered : {false, true}) {
    const std::string said = run(3, [registered](context& own, Complaints&) {
      const size_t bytes = static_cast<size_t>(own.size()) * kBlock;
      std::vector<std::byte> send(bytes), recv(bytes);
      auto* const constant = static_cast<std::byte*>(
          mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      const std::span<std::byte> constants(constant, bytes);
      registered_memory known;
      if (registered) known = own.register_memory(constants);
      all_to_all(own, send, recv);
      own.world().alltoall<std::byte>(constants, recv, {.algorithm = "two_level_ring"});
      own.world().alltoall<std::byte>(send, own.rank() == 1 ? constants : std::span(recv),
                                      {.algorithm = "two_level_ring"});
    });
    EXPECT_THAT(said, HasSubstr("27000 bytes at 0x")) << registered;
    EXPECT_THAT(said,
                HasSubstr("can't be received into: the memory, or a part of it, is read-only"))
        << registered;
    EXPECT_THAT(said, Not(HasSubstr("remote access error"))) << registered;
  }
}

TEST_F(VerbsMemory, PastTheLimitIsAnErrorThatEndsNothing) {
  EXPECT_EQ(run(2,
                [](context& own, Complaints& complaints) {
                  const rlimit limit{1 << 20, 1 << 20};
                  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
                    return complaints.add(own.rank(), "can't set a limit");
                  std::vector<std::byte> memory(size_t{64} << 20);
                  // Root may lock more than the limit: this thread alone becomes somebody else.
                  std::thread([&] {
                    if (geteuid() == 0 && syscall(SYS_setresuid, -1, 65534, -1) != 0)
                      return complaints.add(own.rank(), "can't become somebody else");
                    try {
                      own.register_memory(std::span(memory));
                      complaints.add(own.rank(), "64 MB could be locked");
                    } catch (const error& refused) {
                      if (refused.status() != IBCOLL_ERR_NO_MEMORY ||
                          std::string(refused.what()).find("ulimit -l") == std::string::npos)
                        complaints.add(own.rank(), refused.what());
                    }
                  }).join();
                  own.world().barrier();
                }),
            "");
}

}  // namespace
}  // namespace ibcoll
