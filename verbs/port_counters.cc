#include "verbs/port_counters.h"

#include <fmt/format.h>

#include <fstream>
#include <initializer_list>

namespace ibcoll::verbs {

namespace {

/// Each driver has names of its own for the same thing: mlx5 and mlx4, rxe, bnxt_re, irdma.
constexpr std::initializer_list<const char*> kRnr = {"rnr_nak_retry_err", "rcvd_rnr_err",
                                                     "send_rnr_err", "rnr_naks_rcvd"};
constexpr std::initializer_list<const char*> kRetries = {"local_ack_timeout_err", "packet_seq_err",
                                                         "completer_retry_err", "to_retransmits",
                                                         "RetransSegs"};

uint64_t sum(const std::string& directory, std::initializer_list<const char*> names) {
  uint64_t total = 0;
  for (const char* name : names) {
    std::ifstream file(directory + name);
    uint64_t value = 0;
    if (file >> value) total += value;
  }
  return total;
}

}  // namespace

PortCounters::PortCounters(const PortInfo& port)
    : directory_(
          fmt::format("/sys/class/infiniband/{}/ports/{}/hw_counters/", port.device, port.port)) {
  start_ = read();
}

PortCounters::Values PortCounters::read() const {
  return {sum(directory_, kRnr), sum(directory_, kRetries)};
}

PortCounters::Values PortCounters::since_start() const {
  const Values now = read();
  return {now.rnr - start_.rnr, now.retries - start_.retries};
}

}  // namespace ibcoll::verbs
