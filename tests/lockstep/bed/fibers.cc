// Fibers, each of which stands for a thread of a rank.

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "tests/lockstep/bed/network.h"
#include "tests/lockstep/bed/state.h"

namespace ibcoll::lockstep {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;

constexpr size_t kStackBytes = 512 << 10;
/// Whoever started the ranks learns of an end so much later.
constexpr uint64_t kLatestWordNs = 3'000'000;

void** exceptions_of_thread() { return reinterpret_cast<void**>(abi::__cxa_get_globals()); }

}  // namespace

ThreadLocals ThreadLocals::find() {
  ThreadLocals found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& result = *static_cast<ThreadLocals*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type != PT_TLS) continue;
          result.live = static_cast<char*>(info->dlpi_tls_data);
          result.bytes = header.p_memsz;
          result.image = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
          result.image_bytes = header.p_filesz;
        }
        return 1;  // the first one is the executable
      },
      &found);
  return found;
}

void Bed::State::load(Fiber& fiber) {
  if (loaded == &fiber) return;
  if (loaded != nullptr) save(*loaded);
  std::memcpy(locals.live, fiber.locals.data(), locals.bytes);
  std::memcpy(exceptions_of_thread(), fiber.exceptions, sizeof fiber.exceptions);
  loaded = &fiber;
}

void Bed::State::save(Fiber& fiber) {
  std::memcpy(fiber.locals.data(), locals.live, locals.bytes);
  std::memcpy(fiber.exceptions, exceptions_of_thread(), sizeof fiber.exceptions);
}

Fiber& Bed::State::make_fiber(int process) {
  auto fiber = std::make_unique<Fiber>();
  fiber->process = process;
  fiber->number = fibers.size() + 1;
  fiber->locals.assign(locals.bytes, 0);
  std::copy_n(locals.image, locals.image_bytes, fiber->locals.begin());
  fiber->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (fiber->stack == MAP_FAILED) std::abort();
  mprotect(fiber->stack, 4096, PROT_NONE);
  fiber->context =
      make_fcontext(static_cast<char*>(fiber->stack) + kStackBytes, kStackBytes, enter);
  fibers.push_back(std::move(fiber));
  return *fibers.back();
}

void Bed::State::enter(transfer_t from) {
  State& self = *static_cast<State*>(from.data);
  self.scheduler = from.fctx;
  Fiber& fiber = *self.running;
  if (fiber.first) {
    const int status = fiber.main();
    self.processes[static_cast<size_t>(fiber.process)].status = status;
  } else {
    fiber.result = fiber.body(fiber.argument);
  }
  show_stores();
  fiber.is = Fiber::Is::kEnded;
  ++g_changes;
  self.leave();
  std::abort();
}

void Bed::State::leave() {
  Fiber& self = *running;
  end_slice();
  self.error_number = errno;
  transfer_t from = jump_fcontext(scheduler, this);
  if (tells_where) [[unlikely]] {
    tell_where(self);
    from = jump_fcontext(from.fctx, this);  // for good
  }
  scheduler = from.fctx;
  errno = self.error_number;
}

void Bed::State::tell_where(const Fiber& self) {
  void* frames[24];
  const int count = backtrace(frames, 24);
  fmt::print(stderr, "rank {} is in: addr2line -Cfpse build/bin/lockstep", self.process);
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) != 0)
      fmt::print(stderr, " {:#x}",
                 static_cast<char*>(frames[i]) - static_cast<char*>(info.dli_fbase) - 1);
  }
  fmt::print(stderr, "\n");
}

void Bed::State::tell_all(int process) {
  tells_where = true;
  for (const auto& fiber : fibers) {
    if (fiber->process == process && fiber->is != Fiber::Is::kEnded) resume(*fiber);
  }
  tells_where = false;
}

void Bed::State::resume(Fiber& fiber) {
  if (&fiber != running) ++counts.switches;
  load(fiber);
  running = &fiber;
  fiber.is = Fiber::Is::kReady;
  g_has_delayed = !fiber.delayed.empty();
  g_delays_stores = conditions.delays_stores;
  begin_slice(fiber);
  const transfer_t from = jump_fcontext(fiber.context, this);
  fiber.context = from.fctx;
  if (fiber.is == Fiber::Is::kEnded) end_fiber(fiber);
  g_accesses_left = INT64_MAX;
  g_has_delayed = g_delays_stores = false;
}

void Bed::State::end_fiber(Fiber& fiber) {
  if (!fiber.first) return;
  Process& process = processes[static_cast<size_t>(fiber.process)];
  if (process.dead) return;
  end_process(fiber.process, process.status << 8);
}

void Bed::State::end_process(int number, int status) {
  Process& process = processes[static_cast<size_t>(number)];
  process.ended = true;
  process.status = status;
  network::process_ended(number);
  for (auto& fiber : fibers) {
    if (fiber->process != number) continue;
    for (const Delayed& store : fiber->delayed) store.show();
    fiber->delayed.clear();
    fiber->is = Fiber::Is::kEnded;
  }
  ++g_changes;
  eventfd_write(process.end_fd, 1);
  events.emplace(now + 1000 + static_cast<int64_t>(random.below(kLatestWordNs)),
                 [this, number, status] { bed->ended(number, status); });
}

void Bed::State::kill(int number) {
  Process& process = processes[static_cast<size_t>(number)];
  if (process.ended || process.dead) return;
  process.dead = true;
  ++counts.kills;
  if (traces) fmt::print(stderr, "{:>12} rank {} dies\n", now, number);
  end_process(number, SIGKILL);
}

void free_stack(const Fiber& fiber) { munmap(fiber.stack, kStackBytes); }

}  // namespace ibcoll::lockstep
