#pragma once
/// Jobs whose emulated servers are joined by UCX, over TCP on the loopback interface.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/transport/open.h"
#include "tests/job.h"
#include "ucx/transport.h"

namespace ibcoll::testing {

/// Has UCX use TCP on `lo` alone, whatever there is.
inline void use_tcp_on_lo() {
  setenv("UCX_TLS", "tcp,self", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
}

class UcxOnLo : public ::testing::Test {
 protected:
  void SetUp() override { use_tcp_on_lo(); }
};

inline JobOptions ucx_job(std::vector<int> layout, Placement placement = Placement::kBlock) {
  JobOptions job;
  job.shape = Shape::from_layout(layout, placement).value();
  job.context.transport = "ucx";
  return job;
}

/// From now on "ucx" is opened with these in the place of the environment's; `prepare` runs in
/// each rank before.
inline void open_ucx_with(const ucx::TransportOptions& options, void (*prepare)(Rank) = nullptr) {
  static ucx::TransportOptions wanted;
  static void (*first)(Rank);
  wanted = options;
  first = prepare;
  register_network({.name = "ucx", .open = [](const NetworkSetup& setup) {
                      if (first != nullptr) first(setup.bootstrap.rank());
                      return ucx::create_transport(setup.bootstrap, setup.machines, wanted);
                    }});
}

/// How data can travel.
inline ucx::TransportOptions all_by_rendezvous() {
  ucx::TransportOptions options;
  options.most_eager = 16;
  options.most_in_parts = 0;
  return options;
}
inline ucx::TransportOptions all_in_parts() {
  ucx::TransportOptions options;
  options.part_bytes = 700;
  return options;
}
inline ucx::TransportOptions all_by_puts() {
  ucx::TransportOptions options;
  options.puts = true;
  options.most_in_message = 16;
  return options;
}

}  // namespace ibcoll::testing
