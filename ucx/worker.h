#pragma once
/// A context and a worker of UCP: what one rank of a job communicates with.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "ucx/library.h"

namespace ibcoll::ucx {

/// What UCX can use here, as UCX_TLS and UCX_NET_DEVICES leave it.
struct Resource {
  std::string transport;  ///< "tcp", "rc_mlx5"
  std::string device;     ///< "eth0", "mlx5_0:1"
};

class UcpContext {
 public:
  static Result<std::unique_ptr<UcpContext>> open();
  ~UcpContext();
  UcpContext(const UcpContext&) = delete;
  UcpContext& operator=(const UcpContext&) = delete;

  const Library& ucp() const { return ucp_; }
  ucp_context_h handle() const { return handle_; }
  /// Those that reach other processes.
  std::vector<Resource> resources() const;

 private:
  explicit UcpContext(const Library& ucp) : ucp_(ucp) {}
  static Result<std::unique_ptr<UcpContext>> open(bool sends_from_memory);
  const Library& ucp_;
  ucp_context_h handle_ = nullptr;
};

/// Whether some of them write to a peer's memory by themselves (RDMA).
bool any_writes_by_itself(const std::vector<Resource>& resources);
/// "tcp/eth0, tcp/lo".
std::string describe(const std::vector<Resource>& resources);

/// Used by one thread at a time.
class Worker {
 public:
  static Result<std::unique_ptr<Worker>> open(UcpContext& context);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h handle() const { return handle_; }
  int events() const { return events_; }  ///< the descriptor that arming it is for
  /// By which peers make endpoints to it.
  const std::vector<std::byte>& address() const { return address_; }

 private:
  explicit Worker(const Library& ucp) : ucp_(ucp) {}
  const Library& ucp_;
  ucp_worker_h handle_ = nullptr;
  int events_ = -1;
  std::vector<std::byte> address_;
};

}  // namespace ibcoll::ucx
