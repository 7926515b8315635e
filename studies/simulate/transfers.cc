#include "studies/simulate/transfers.h"

#include "studies/simulate/link_load.h"

namespace ibcoll::sim {

namespace {

class TransferRun final : public NetworkClient {
 public:
  TransferRun(std::span<const Transfer> transfers, std::vector<uint32_t> routes, Network& network)
      : transfers_(transfers), routes_(std::move(routes)), network_(network) {
    const size_t count = transfers.size();
    waits_.resize(count);
    first_.resize(count + 1);
    times_.begin_ns.resize(count, -1);
    times_.end_ns.resize(count, -1);
    for (const Transfer& transfer : transfers) {
      for (const uint32_t before : transfer.after) ++first_[before + 1];
    }
    for (size_t i = 0; i < count; ++i) first_[i + 1] += first_[i];
    followers_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (uint32_t i = 0; i < count; ++i) {
      waits_[i] = static_cast<uint32_t>(transfers[i].after.size());
      for (const uint32_t before : transfers[i].after) followers_[next[before]++] = i;
    }
  }

  Result<TransferTimes> run() {
    for (uint32_t i = 0; i < transfers_.size(); ++i) {
      if (waits_[i] == 0) release(i);
    }
    IBCOLL_TRY(network_.run(*this));
    for (uint32_t i = 0; i < transfers_.size(); ++i) {
      if (times_.end_ns[i] < 0) {
        return fail(ErrorCode::kInvalidArgument,
                    "transfer {} never starts: what it comes after waits for it", i);
      }
    }
    times_.time_us = static_cast<double>(last_) * 1e-6;
    times_.link_bytes = network_.link_bytes();
    times_.max_link_utilisation = max_link_utilisation(network_.routes(), times_.link_bytes, last_);
    times_.events = network_.events();
    return std::move(times_);
  }

  void woken(uint32_t transfer) override { begin(transfer); }

  void delivered(uint32_t transfer) override {
    times_.end_ns[transfer] = network_.now() / kPicosecondsPerNanosecond;
    last_ = network_.now();
    for (uint32_t i = first_[transfer]; i < first_[transfer + 1]; ++i) {
      if (--waits_[followers_[i]] == 0) release(followers_[i]);
    }
  }

 private:
  /// What it comes after is delivered.
  void release(uint32_t transfer) {
    const int64_t delay = transfers_[transfer].delay_ns;
    const bool local = routes_[transfer] == kNone;
    if (delay == 0 && !local) {
      begin(transfer);
    } else {  // local ones as well, so that long chains of them don't nest
      network_.wake_at(network_.now() + delay * kPicosecondsPerNanosecond, transfer);
    }
  }

  void begin(uint32_t transfer) {
    times_.begin_ns[transfer] = network_.now() / kPicosecondsPerNanosecond;
    if (routes_[transfer] == kNone) return delivered(transfer);
    const Transfer& what = transfers_[transfer];
    const uint32_t sender = what.sender == Transfer::kOwnSender ? transfer : what.sender;
    network_.send({routes_[transfer], sender, what.bytes, what.bytes == 0}, transfer);
  }

  const std::span<const Transfer> transfers_;
  const std::vector<uint32_t> routes_;
  Network& network_;
  std::vector<uint32_t> waits_;              // by transfer: how many it still waits for
  std::vector<uint32_t> first_, followers_;  // by transfer: who waits for it
  TransferTimes times_;
  Time last_ = 0;
};

}  // namespace

Result<TransferTimes> simulate_transfers(const topology::Fabric& fabric,
                                         std::span<const Transfer> transfers,
                                         const NetworkOptions& options) {
  constexpr uint32_t kMostSenders = 1 << 26;
  Routes routes(fabric, options.level == Level::kPacket);
  std::vector<uint32_t> of_transfer;
  uint32_t senders = static_cast<uint32_t>(transfers.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    for (const uint32_t host : {transfer.from, transfer.to}) {
      if (host >= routes.hosts()) {
        return fail(ErrorCode::kInvalidArgument, "transfer {}: no host {}, there are {}", i, host,
                    routes.hosts());
      }
    }
    for (const uint32_t before : transfer.after) {
      if (before >= transfers.size()) {
        return fail(ErrorCode::kInvalidArgument, "transfer {} comes after {}: there are {}", i,
                    before, transfers.size());
      }
    }
    if (transfer.delay_ns < 0) {
      return fail(ErrorCode::kInvalidArgument, "transfer {}: a delay of {} ns", i,
                  transfer.delay_ns);
    }
    if (transfer.sender != Transfer::kOwnSender) {
      if (transfer.sender >= kMostSenders) {
        return fail(ErrorCode::kInvalidArgument, "transfer {}: sender {}: must be below {}", i,
                    transfer.sender, kMostSenders);
      }
      senders = std::max(senders, transfer.sender + 1);
    }
    of_transfer.push_back(kNone);
    if (transfer.from == transfer.to) continue;
    IBCOLL_ASSIGN(of_transfer.back(), routes.add(transfer.from, transfer.to));
  }
  IBCOLL_ASSIGN(const auto network, Network::create(routes, options, senders));
  return TransferRun(transfers, std::move(of_transfer), *network).run();
}

}  // namespace ibcoll::sim
