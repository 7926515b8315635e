// Functions of the C library as the engine finds them in lockstep: answered by the bed where a
// fiber calls them, by the real ones anywhere else. Defined in the executable, they go before the
// C library's for all that is linked with it.

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "tests/lockstep/bed/hooks.h"
#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/shared_word.h"

namespace ibcoll::lockstep {
int poll_once(pollfd* descriptors, nfds_t count);  // system_sockets.cc
}

namespace machine = ibcoll::lockstep::machine;
using ibcoll::lockstep::step;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
/// How often a descriptor is looked at that something from outside may make readable.
constexpr int64_t kLookNs = 100'000, kLongestLookNs = 2'000'000;
/// How soon one who waits for a lock looks whether its owner has died.
constexpr int64_t kLockLookNs = 1'000'000;
/// Memory of other processes is copied in pieces, between which its owner may go on.
constexpr size_t kCopyBytes = 16384;

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

long kernel(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

int64_t in_ns(const timespec& time) { return time.tv_sec * kSecondNs + time.tv_nsec; }

long futex(uint32_t* word, int operation, uint32_t value, const timespec* limit) {
  const uint64_t key = machine::key_of(word);
  if ((operation & FUTEX_CMD_MASK) == FUTEX_WAKE) {
    step();
    return machine::wake(key, static_cast<int>(value));
  }
  ibcoll::lockstep::show_stores();
  step();
  ibcoll::lockstep::show_stores();
  if (*static_cast<volatile uint32_t*>(word) != value) {
    errno = EAGAIN;
    return -1;
  }
  // Not a step: nobody stores between the look and the sleep.
  const int64_t until = limit == nullptr ? 0 : machine::now_ns() + in_ns(*limit);
  if (machine::wait_on(key, until)) return 0;
  errno = ETIMEDOUT;
  return -1;
}

ssize_t copy_between(int pid, const iovec* own, unsigned long own_count, const iovec* other,
                     unsigned long other_count, bool read) {
  if (machine::forbids_process_vm()) {
    errno = EPERM;
    return -1;
  }
  const int process = machine::process_of(pid);
  if (process < 0 || machine::is_dead(process)) {
    errno = ESRCH;
    return -1;
  }
  if (machine::refuses_call()) {
    errno = EFAULT;
    return -1;
  }
  ibcoll::lockstep::show_stores();
  size_t copied = 0, own_at = 0, other_at = 0;
  unsigned long i = 0, k = 0;
  while (i < own_count && k < other_count) {
    const size_t piece =
        std::min({own[i].iov_len - own_at, other[k].iov_len - other_at, kCopyBytes});
    auto* const here = static_cast<char*>(own[i].iov_base) + own_at;
    auto* const there = static_cast<char*>(other[k].iov_base) + other_at;
    if (piece != 0) {
      step();
      if (machine::is_dead(process)) break;
      if (read || !machine::is_let_go(process)) {
        std::memcpy(read ? here : there, read ? there : here, piece);
        if (!read) machine::data_came(there, piece);
      }
      machine::note_change();
    }
    copied += piece;
    own_at += piece;
    other_at += piece;
    if (own_at == own[i].iov_len) ++i, own_at = 0;
    if (other_at == other[k].iov_len) ++k, other_at = 0;
  }
  if (copied == 0 && machine::is_dead(process)) {
    errno = ESRCH;
    return -1;
  }
  return static_cast<ssize_t>(copied);
}

/// Asks the kernel now and then, until it says something or the time is over.
template <class Ask>
int ask_until(int milliseconds, const Ask& ask) {
  const int64_t until = machine::now_ns() + int64_t{milliseconds} * 1'000'000;
  for (int64_t nap = kLookNs;; nap = std::min(nap + nap / 8, kLongestLookNs)) {
    const int result = ask();
    if (result != 0 || milliseconds == 0) return result;
    if (milliseconds > 0 && machine::now_ns() >= until) return 0;
    machine::sleep_until(machine::now_ns() + nap);
  }
}

bool tells_of_memory(std::string_view path) {
  return path == "/proc/meminfo" || path == "/proc/self/cgroup";
}

uint64_t owner(const pthread_mutex_t* mutex) {
  return static_cast<uint64_t>(static_cast<uint32_t>(mutex->__data.__owner));
}

bool is_robust(const pthread_mutex_t* mutex) {
  constexpr int kRobust = 16;
  return (mutex->__data.__kind & kRobust) != 0;
}

int try_lock(pthread_mutex_t* mutex) {
  step();
  if (owner(mutex) == 0) {
    mutex->__data.__owner = static_cast<int>(machine::current_thread());
    return 0;
  }
  if (!machine::is_thread_dead(owner(mutex))) return EBUSY;
  // One of a library's own is another one in each process, but in the bed.
  const bool private_one = machine::key_of(mutex) == reinterpret_cast<uint64_t>(mutex);
  if (!is_robust(mutex) && !private_one) return EBUSY;
  mutex->__data.__owner = static_cast<int>(machine::current_thread());
  return is_robust(mutex) ? EOWNERDEAD : 0;
}

int lock(pthread_mutex_t* mutex, int64_t until_ns = INT64_MAX) {
  for (;;) {
    const int result = try_lock(mutex);
    if (result != EBUSY) return result;
    const int64_t now = machine::now_ns();
    if (now >= until_ns) return ETIMEDOUT;
    // The owner may die with it, which wakes nobody.
    machine::wait_on(machine::key_of(mutex), std::min(until_ns, now + kLockLookNs));
  }
}

void unlock(pthread_mutex_t* mutex) {
  ibcoll::lockstep::show_stores();
  mutex->__data.__owner = 0;
  machine::wake(machine::key_of(mutex), 1);
  step();
}

int wait_for_signal(pthread_cond_t* condition, pthread_mutex_t* mutex, int64_t until_ns) {
  // The look at the condition and the sleep are one: no step in between.
  mutex->__data.__owner = 0;
  machine::wake(machine::key_of(mutex), 1);
  const bool woken = machine::wait_on(reinterpret_cast<uint64_t>(condition), until_ns);
  lock(mutex);
  return woken || until_ns == 0 ? 0 : ETIMEDOUT;
}

}  // namespace

// Other libraries are to find these, too.
#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!machine::active() || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
    return static_cast<int>(
        kernel(SYS_clock_gettime, clock, reinterpret_cast<long>(time), 0, 0, 0, 0));
  const int64_t now = machine::now_ns();
  *time = {now / kSecondNs, now % kSecondNs};
  return 0;
}

int sched_yield() noexcept {
  if (!machine::in_fiber()) return 0;
  machine::yield();
  return 0;
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* processors) noexcept {
  std::memset(processors, 0, bytes);
  if (!machine::in_fiber())
    return static_cast<int>(std::min(kernel(SYS_sched_getaffinity, pid, static_cast<long>(bytes),
                                            reinterpret_cast<long>(processors), 0, 0, 0),
                                     0L));
  for (int i = 0; i < machine::cores(); ++i) CPU_SET_S(static_cast<size_t>(i), bytes, processors);
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (!machine::in_fiber())
    return static_cast<int>(kernel(SYS_clock_nanosleep, clock, flags, reinterpret_cast<long>(time),
                                   reinterpret_cast<long>(left), 0, 0));
  machine::sleep_until((flags & TIMER_ABSTIME) != 0 ? in_ns(*time)
                                                    : machine::now_ns() + in_ns(*time));
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
}

int usleep(useconds_t microseconds) {
  const timespec time{microseconds / 1'000'000, int64_t{microseconds % 1'000'000} * 1000};
  return nanosleep(&time, nullptr);
}

pid_t getpid() noexcept {
  if (machine::in_fiber()) return machine::process_id();
  return static_cast<pid_t>(kernel(SYS_getpid, 0, 0, 0, 0, 0, 0));
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long values[6];
  for (long& value : values) value = va_arg(list, long);
  va_end(list);
  const auto [a, b, c, d, e, f] = values;
  if (machine::in_fiber()) {
    switch (number) {
      case SYS_futex:
        return futex(reinterpret_cast<uint32_t*>(a), static_cast<int>(b), static_cast<uint32_t>(c),
                     reinterpret_cast<const timespec*>(d));
      case SYS_membarrier:
        if (machine::forbids_membarrier()) {
          errno = EPERM;
          return -1;
        }
        machine::fence_everybody();
        return 0;
      case SYS_pidfd_open: {
        const int process = machine::process_of(static_cast<int>(a));
        if (process >= 0) return machine::open_end_of(process);
        errno = ESRCH;
        return -1;
      }
      default:
        break;
    }
  } else if (machine::active() && number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAKE) {
    return machine::wake(machine::key_of(reinterpret_cast<void*>(a)), static_cast<int>(c));
  }
  return kernel(number, a, b, c, d, e, f);
}

int poll(pollfd* descriptors, nfds_t count, int milliseconds) {
  if (!machine::in_fiber())
    return static_cast<int>(kernel(SYS_poll, reinterpret_cast<long>(descriptors),
                                   static_cast<long>(count), milliseconds, 0, 0, 0));
  return ask_until(milliseconds, [&] { return ibcoll::lockstep::poll_once(descriptors, count); });
}

int epoll_wait(int epoll, epoll_event* events, int most, int milliseconds) {
  const auto ask = [&](int limit) {
    return static_cast<int>(
        kernel(SYS_epoll_wait, epoll, reinterpret_cast<long>(events), most, limit, 0, 0));
  };
  if (!machine::in_fiber()) return ask(milliseconds);
  return ask_until(milliseconds, [&] { return ask(0); });
}

ssize_t process_vm_readv(pid_t pid, const iovec* own, unsigned long own_count, const iovec* other,
                         unsigned long other_count, unsigned long) noexcept {
  return copy_between(pid, own, own_count, other, other_count, true);
}

ssize_t process_vm_writev(pid_t pid, const iovec* own, unsigned long own_count, const iovec* other,
                          unsigned long other_count, unsigned long) noexcept {
  return copy_between(pid, own, own_count, other, other_count, false);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  auto* const mapped =
      reinterpret_cast<void*>(kernel(SYS_mmap, reinterpret_cast<long>(address),
                                     static_cast<long>(bytes), protection, flags, fd, offset));
  if (mapped != MAP_FAILED && machine::active() && fd >= 0 && (flags & MAP_SHARED) != 0)
    machine::note_mapping(mapped, bytes, fd, offset);
  return mapped;
}

int munmap(void* address, size_t bytes) noexcept {
  ibcoll::lockstep::show_stores();
  if (machine::active()) machine::forget_mapping(address, bytes);
  return static_cast<int>(
      kernel(SYS_munmap, reinterpret_cast<long>(address), static_cast<long>(bytes), 0, 0, 0, 0));
}

/// What the machine has left is not asked for: that takes longer than all else at the start of
/// ranks.
std::FILE* fopen64(const char* path, const char* mode) {
  if (machine::in_fiber() && tells_of_memory(path)) {
    errno = ENOENT;
    return nullptr;
  }
  static auto* const open_file = real<std::FILE*(const char*, const char*)>("fopen64");
  return open_file(path, mode);
}

/// Nobody writes core dumps of the bed.
int madvise(void* address, size_t bytes, int advice) noexcept {
  if (machine::in_fiber() && (advice == MADV_DONTDUMP || advice == MADV_DODUMP)) return 0;
  return static_cast<int>(kernel(SYS_madvise, reinterpret_cast<long>(address),
                                 static_cast<long>(bytes), advice, 0, 0, 0));
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (machine::in_fiber()) {
    // Pages come when they are touched: most never are, and to clear them takes longer than the
    // run.
    if (machine::refuses_memory()) {
      errno = ENOSPC;
      return -1;
    }
    struct stat info {};
    if (fstat(fd, &info) == 0 && info.st_size < offset + bytes)
      return ftruncate(fd, offset + bytes);
    return 0;
  }
  return static_cast<int>(kernel(SYS_fallocate, fd, mode, offset, bytes, 0, 0));
}

int memfd_create(const char* name, unsigned flags) noexcept {
  if (machine::in_fiber() && machine::refuses_call()) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(
      kernel(SYS_memfd_create, reinterpret_cast<long>(name), flags, 0, 0, 0, 0));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) noexcept {
  if (machine::in_fiber()) {
    if (machine::refuses_call()) return EAGAIN;
    *thread = machine::start_thread(body, argument);
    return 0;
  }
  static auto* const create =
      real<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return create(thread, attributes, body, argument);
}

int pthread_join(pthread_t thread, void** result) {
  if (machine::in_fiber()) {
    void* const given = machine::join_thread(thread);
    if (result != nullptr) *result = given;
    return 0;
  }
  static auto* const join = real<int(pthread_t, void**)>("pthread_join");
  return join(thread, result);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (machine::in_fiber()) return lock(mutex);
  static auto* const lock_real = real<int(pthread_mutex_t*)>("pthread_mutex_lock");
  return lock_real(mutex);
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
  if (machine::in_fiber()) return lock(mutex, in_ns(*until));
  static auto* const lock_real =
      real<int(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  return lock_real(mutex, until);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (machine::in_fiber()) return try_lock(mutex);
  static auto* const lock_real = real<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  return lock_real(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (machine::in_fiber()) {
    unlock(mutex);
    return 0;
  }
  static auto* const unlock_real = real<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  return unlock_real(mutex);
}

int pthread_mutex_consistent(pthread_mutex_t* mutex) noexcept {
  if (machine::in_fiber()) return 0;
  static auto* const consistent = real<int(pthread_mutex_t*)>("pthread_mutex_consistent");
  return consistent(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (machine::in_fiber()) return wait_for_signal(condition, mutex, 0);
  static auto* const wait = real<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  return wait(condition, mutex);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  if (machine::in_fiber())
    return wait_for_signal(condition, mutex, std::max<int64_t>(in_ns(*until), 1));
  static auto* const wait =
      real<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>(
          "pthread_cond_clockwait");
  return wait(condition, mutex, clock, until);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, until);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (machine::in_fiber()) {
    step();
    machine::wake(reinterpret_cast<uint64_t>(condition), 1);
    return 0;
  }
  static auto* const signal = real<int(pthread_cond_t*)>("pthread_cond_signal");
  return signal(condition);
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (machine::in_fiber()) {
    step();
    machine::wake(reinterpret_cast<uint64_t>(condition), INT32_MAX);
    return 0;
  }
  static auto* const broadcast = real<int(pthread_cond_t*)>("pthread_cond_broadcast");
  return broadcast(condition);
}

int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  if (machine::in_fiber()) return 0;
  static auto* const destroy = real<int(pthread_cond_t*)>("pthread_cond_destroy");
  return destroy(condition);
}

}  // extern "C"

/// All that C++ asks for: what the library does without, and what programs of the bed ask for, is
/// never refused.
void* operator new(size_t bytes) {
  if (ibcoll::lockstep::g_may_lack_memory > 0 && machine::in_fiber() && machine::refuses_heap())
    throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#pragma GCC visibility pop
