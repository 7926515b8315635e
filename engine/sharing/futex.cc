#include "engine/sharing/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace ibcoll {

void futex_wait(Shared<uint32_t>& word, uint32_t value, int64_t nanoseconds) {
  const timespec timeout{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void futex_wake(Shared<uint32_t>& word, int sleepers) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

}  // namespace ibcoll
