#pragma once
/// How the executor serves who makes calls because mails arrive.

#include <cstddef>

#include "engine/execute/arrival_runs.h"
#include "engine/execute/deaths.h"
#include "engine/execute/mailroom.h"
#include "engine/transport/transport.h"

namespace ibcoll {

class ServedRuns {
 public:
  /// `network` may be null on a single server. All must outlive it.
  ServedRuns(NetworkTransport* network, Mailroom& mailroom, const Deaths& deaths)
      : network_(network), mailroom_(mailroom), deaths_(deaths) {}

  /// From now on these; null: there are none.
  void serve(ArrivalRuns* runs) {
    runs_ = runs;
    told_ = 0;
    mailroom_.serve(runs);
  }
  bool are_there() const { return runs_ != nullptr; }
  bool are_busy() const {
    return runs_ != nullptr && (runs_->busy() || told_ < deaths_.known().size());
  }
  /// One round of those that are there; `moved`: whether anything has moved in it so far, as the
  /// result says for what follows. On a single server the queue of mails is looked at only here,
  /// and where waits take long.
  bool advance(bool moved) {
    if (network_ == nullptr) moved |= mailroom_.take_local_mails(Mailroom::kMailsAtOnce);
    // A death is not told where it is found, amid operations of calls: the runs may end these.
    while (told_ < deaths_.known().size()) {
      const Failure death = deaths_.known()[told_++];  // a copy: there may be another one meanwhile
      runs_->lost(death.culprit, death);
      moved = true;
    }
    if (runs_->busy()) moved |= runs_->advance();
    if (moved && network_ != nullptr) network_->flush();
    return moved;
  }

 private:
  NetworkTransport* network_;
  Mailroom& mailroom_;
  const Deaths& deaths_;
  ArrivalRuns* runs_ = nullptr;
  size_t told_ = 0;  ///< of the deaths: how many the runs know
};

}  // namespace ibcoll
