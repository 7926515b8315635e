#pragma once
/// A process of root's to which the limit of locked memory applies.

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ibcoll::testing {

/// Takes the privilege to lock more than the limit from this process and its children. (To become
/// somebody else would not do: who did not open a device may not send with it.)
class WithoutLockPrivilege {
 public:
  WithoutLockPrivilege() { set(false); }
  ~WithoutLockPrivilege() { set(true); }

 private:
  static void set(bool privileged) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    ASSERT_EQ(syscall(SYS_capget, &header, sets), 0);
    const uint32_t bit = CAP_TO_MASK(CAP_IPC_LOCK);
    sets[0].effective =
        privileged ? sets[0].effective | (sets[0].permitted & bit) : sets[0].effective & ~bit;
    ASSERT_EQ(syscall(SYS_capset, &header, sets), 0);
  }
};

}  // namespace ibcoll::testing
