#pragma once
/// Libraries that take signals when they are loaded, which are the program's.

#include <csignal>

namespace ibcoll {

/// While it lives what signals do may be changed; then it is put back as it was.
class KeptSignalActions {
 public:
  KeptSignalActions() {
    for (int number = 1; number < NSIG; ++number) {
      known_[number] = sigaction(number, nullptr, &actions_[number]) == 0;
    }
  }
  ~KeptSignalActions() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction now {};
      if (known_[number] && sigaction(number, nullptr, &now) == 0 &&
          now.sa_sigaction != actions_[number].sa_sigaction)
        sigaction(number, &actions_[number], nullptr);
    }
  }
  KeptSignalActions(const KeptSignalActions&) = delete;
  KeptSignalActions& operator=(const KeptSignalActions&) = delete;

 private:
  struct sigaction actions_[NSIG] = {};
  bool known_[NSIG] = {};
};

}  // namespace ibcoll
