// The queue of mails between the ranks of a server.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shm/mail_queue.h"

namespace ibcoll {
namespace {

TEST(MailQueue, KeepsTheOrderOfEachProducer) {
  constexpr uint32_t kProducers = 4, kMails = 5000;
  std::vector<std::byte> memory(shm::MailQueue::bytes(64));
  std::vector<std::thread> producers;
  for (uint32_t producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&memory, producer] {
      shm::MailQueue queue(memory.data(), 64);
      for (uint32_t i = 0; i < kMails;) {
        const std::array<uint32_t, 2> mail{producer, i};
        if (queue.offer(std::as_bytes(std::span(mail)))) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  shm::MailQueue queue(memory.data(), 64);
  std::array<uint32_t, kProducers> next{};
  for (uint32_t taken = 0; taken < kProducers * kMails;) {
    const std::span<const std::byte> bytes = queue.front();
    if (bytes.empty()) {
      std::this_thread::yield();
      continue;
    }
    std::array<uint32_t, 2> mail{};
    ASSERT_EQ(bytes.size(), sizeof mail);
    std::memcpy(mail.data(), bytes.data(), sizeof mail);
    ASSERT_LT(mail[0], kProducers);
    ASSERT_EQ(mail[1], next[mail[0]]++);
    queue.release();
    ++taken;
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(queue.front().empty());
}

bool leave(shm::MailQueue& queue, std::string_view mail) {
  return queue.offer(std::as_bytes(std::span(mail)));
}

std::string take(shm::MailQueue& queue) {
  const std::span<const std::byte> mail = queue.front();
  std::string text(reinterpret_cast<const char*>(mail.data()), mail.size());
  if (!mail.empty()) queue.release();
  return text;
}

TEST(MailQueue, HandsOutMailsOfEveryLengthInOrder) {
  constexpr size_t kLongest = 64;
  std::vector<std::byte> memory(shm::MailQueue::bytes(kLongest));
  shm::MailQueue queue(memory.data(), kLongest);
  for (size_t length = 1; length <= kLongest; ++length) {
    const auto mail = [length](uint32_t i) {
      return std::string(length, static_cast<char>('A' + i));
    };
    for (uint32_t i = 0; i < shm::MailQueue::kMails; ++i) ASSERT_TRUE(leave(queue, mail(i)));
    ASSERT_FALSE(leave(queue, "one too many"));
    for (uint32_t i = 0; i < shm::MailQueue::kMails; ++i) ASSERT_EQ(take(queue), mail(i));
    ASSERT_EQ(take(queue), "");
  }
}

TEST(MailQueue, SaysOnceThatSomebodyWasRefused) {
  std::vector<std::byte> memory(shm::MailQueue::bytes(64));
  shm::MailQueue queue(memory.data(), 64);
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < shm::MailQueue::kMails; ++i) ASSERT_TRUE(leave(queue, "mail"));
    EXPECT_FALSE(queue.was_full()) << "nobody was refused";
    EXPECT_FALSE(leave(queue, "one too many"));
    EXPECT_TRUE(queue.was_full());
    EXPECT_FALSE(queue.was_full()) << "it is asked for the second time";
    while (!take(queue).empty()) {
    }
  }
}

/// A process that leaves a mail stands still after each of its instructions: if it never went on,
/// or died there, all others' mails would still come.
TEST(MailQueue, NoProducerHoldsUpAnother) {
  const size_t bytes = shm::MailQueue::bytes(64);
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t producer = fork();
  if (producer == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    raise(SIGSTOP);
    shm::MailQueue queue(memory, 64);
    _exit(leave(queue, "of the other") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(producer, &status, 0), producer);
  if (WIFEXITED(status)) {
    munmap(memory, bytes);
    GTEST_SKIP() << "this machine lets no process trace its child";
  }
  ptrace(PTRACE_SETOPTIONS, producer, nullptr, PTRACE_O_EXITKILL);
  shm::MailQueue queue(memory, 64), own(memory, 64);
  int steps = 0, taken = 0, others = 0;
  for (bool runs = true; runs; ++steps) {
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(leave(own, "own " + std::to_string(taken + i))) << "after step " << steps;
    for (int mails = 0; mails < 3;) {
      const std::string mail = take(queue);
      ASSERT_NE(mail, "") << "after step " << steps;
      if (mail == "of the other") {
        ++others;
        continue;
      }
      ASSERT_EQ(mail, "own " + std::to_string(taken++));
      ++mails;
    }
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, producer, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(producer, &status, 0), producer);
    runs = !WIFEXITED(status) && !WIFSIGNALED(status);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  while (take(queue) == "of the other") ++others;
  EXPECT_EQ(others, 1);
  EXPECT_GT(steps, 50);
  munmap(memory, bytes);
}

}  // namespace
}  // namespace ibcoll
