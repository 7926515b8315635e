#pragma once
/// NetworkTransport over UCP: a signal is an active message. Data travels in the message of its
/// put, or, where UCX writes to a peer's memory by itself, as a put whose message follows once a
/// flush has said that the data is there.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/transport/memory_cache.h"
#include "engine/transport/transport.h"
#include "ucx/arrival_watch.h"
#include "ucx/gate.h"
#include "ucx/lifelines.h"
#include "ucx/peer.h"
#include "ucx/registrar.h"
#include "ucx/worker.h"

namespace ibcoll::ucx {

struct TransportOptions {
  /// Registrations kept for buffers that are not in use; 0: none.
  size_t kept_registrations = 256;
  /// A peer that was silent for so long is looked after, while this rank waits.
  int64_t probe_after_ns = 500'000'000;
  /// A machine that has not answered for so long is not waited for any longer.
  int64_t unreachable_ns = 5'000'000'000;
  /// Longer data is written by ucp_put, where that is used.
  size_t most_in_message = 8192;
  /// Where UCX does not write by itself, data up to `most_in_parts` goes in several messages of so
  /// many bytes: what one of TCP's carries, less the heads (UCX_TCP_RX_SEG_SIZE). The longest mail.
  size_t part_bytes = 60 * 1024;
  size_t most_in_parts = 1536 * 1024;
  /// Longer data of one message goes by UCX's rendezvous: then a copy more at the receiver would
  /// cost more than asking for it.
  size_t most_eager = 512 * 1024;
  /// Whether ucp_put is used; not set: where UCX writes by itself.
  std::optional<bool> puts;
  /// Whether UCX may take connections from others than the ranks of the job.
  bool open_to_all = false;

  /// The defaults, overridden by the IBCOLL_* variables (docs/environment.md).
  static Result<TransportOptions> from_environment();
};

/// Collective over the job; fails on all ranks alike, naming the first rank that can't, be it only
/// that its options could not be read. `machine_of`: each rank's machine.
Result<std::unique_ptr<NetworkTransport>> create_transport(Bootstrap& bootstrap,
                                                           const std::vector<int>& machine_of,
                                                           const Result<TransportOptions>& options);

class UcxTransport final : public NetworkTransport {
 public:
  /// Everything of this rank alone; connect_job() makes it part of a job.
  static Result<std::unique_ptr<UcxTransport>> open(const TransportOptions& options);
  const std::vector<std::byte>& address() const { return worker_->address(); }
  LifelinePlace lifeline() const { return lifelines_->place(); }
  GatePlace gate() const;
  /// Lets the ranks of the job connect, and nobody else. None may before all have done so.
  Status admit(const std::vector<GatePlace>& places, const std::vector<int>& machine_of, Rank me);
  /// Addresses and lifelines by rank.
  void connect_job(Bootstrap& bootstrap, std::vector<std::vector<std::byte>> addresses,
                   std::vector<LifelinePlace> lifelines, const std::vector<int>& machine_of);
  ~UcxTransport() override;

  const char* name() const override { return "ucx"; }
  Result<MemoryKey> register_memory(void* base, size_t bytes) override;
  Result<MemoryKey> register_spare(void* base, size_t bytes) override;
  void deregister_memory(const MemoryKey& key) override { memory_->release(key); }
  size_t pack_key(const MemoryKey& key, std::span<std::byte> packed) const override;
  Result<uint64_t> unpack_key(Rank peer, std::span<const std::byte> packed) override;
  void release_key(Rank peer, uint64_t key) override;
  bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
           size_t bytes, uint64_t immediate) override;
  size_t max_put_segments() const override { return kMaxSegments; }
  size_t max_data_mail_bytes() const override {
    return std::max(kMaxMailBytes, options_.part_bytes);
  }
  bool put_segments(Rank peer, std::span<const PutSegment> segments, const MemoryKey& source_key,
                    RemoteAddress target, uint64_t immediate) override;
  bool signal(Rank peer, uint32_t immediate) override;
  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override;
  size_t poll(std::span<Arrival> arrivals) override;
  uint64_t posted(Rank peer) const override;
  uint64_t completed(Rank peer) override;
  void flush() override;
  uint64_t mark() override;
  std::optional<Rank> held_by(uint64_t call, uint64_t mark, RankSpan members) override;
  bool wake_on_arrival(Bell& bell) override;
  std::optional<Failure> failure() const override { return failure_; }
  const TransportCounters& counters() const override { return counters_; }
  std::vector<NamedCounter> details() const override;
  Status close() override;

 private:
  UcxTransport() = default;
  Status listen();
  Peer& enter(Rank rank);
  Peer* usable(Rank rank);
  Status connect(Peer& peer);
  // Sending (sending.cc).
  bool post(Rank rank, std::span<const PutSegment> segments, const MemoryKey& source_key,
            RemoteAddress target, uint64_t immediate);
  Outgoing& number(Peer& peer, MessageKind kind, uint64_t immediate);
  void count(size_t data_bytes);
  void send(Outgoing& message, const void* data, size_t count, bool pieces, size_t bytes);
  void send_in_parts(Peer& peer, PutSegment rest, RemoteAddress target, uint64_t immediate);
  void write(Outgoing& message, const RemoteKey& key, std::span<const PutSegment> segments,
             const MemoryKey& source_key, RemoteAddress target);
  void flush(Peer& peer);
  void flushed(Outgoing& last);
  void send_credit(Peer& peer);
  void return_mails();
  void stays(Peer& peer);
  bool holds(Peer& peer, uint64_t call, uint64_t mark, RankSpan members);
  bool settled(ucs_status_ptr_t request, Peer& peer);
  void complete(Outgoing& message, uint32_t& requests, void* request, ucs_status_t status);
  static void on_data_read(void* request, ucs_status_t status, void* message);
  static void on_other_done(void* request, ucs_status_t status, void* message);
  static void on_flushed(void* request, ucs_status_t status, void* message);
  static void on_credit_sent(void* request, ucs_status_t status, void* peer);
  // Receiving (receiving.cc).
  static ucs_status_t on_message(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* how);
  static void on_data_received(void* request, ucs_status_t status, size_t bytes, void* message);
  void receive(const Header& header, void* data, size_t bytes, bool rendezvous);
  void* data_place(const Header& header, size_t bytes);
  void* mail_place(Peer& peer, Incoming& message, const Header& header, size_t bytes);
  void present(Incoming& message);
  size_t hand_out(std::span<Arrival> arrivals);
  bool hand_out_of(Peer& peer, std::span<Arrival> arrivals, size_t& count);
  // What goes wrong (health.cc).
  void tick(int64_t now_ns);
  void look_after_silent(int64_t now_ns);
  void suspect(Failure failure);
  void latch(Failure failure);
  void latch(const Status& status);
  void latch_broken(Peer& peer, ucs_status_t status);
  static void on_broken(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  bool ended() const { return failure_ || suspect_; }
  bool all_complete();
  void close_endpoints();

  TransportOptions options_;
  std::unique_ptr<UcpContext> context_;
  std::unique_ptr<Gate> gate_;           ///< null: everybody may connect
  std::vector<std::string> interfaces_;  ///< that UCX uses TCP on
  std::unique_ptr<Registrar> registrar_;
  std::unique_ptr<MemoryCache> memory_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank; null: nothing was sent either way
  std::unique_ptr<Worker> worker_;            ///< goes before the peers that its requests point to
  std::unique_ptr<ArrivalWatch> watch_;
  std::unique_ptr<Lifelines> lifelines_;
  const Library* ucp_ = nullptr;
  bool puts_ = false;

  Bootstrap* bootstrap_ = nullptr;
  Rank me_ = -1;
  std::vector<std::vector<std::byte>> addresses_;
  std::unordered_map<uint64_t, std::unique_ptr<RemoteKey>> keys_;  ///< by what unpack_key() gave
  std::vector<Peer*> known_;                                       ///< all of peers_
  std::vector<Peer*> ready_;                                       ///< with something to hand out
  std::vector<Peer*> unflushed_;  ///< with puts that no flush is for yet
  std::vector<Peer*> staying_;    ///< with messages that may wait in UCX
  uint64_t marks_ = 0;
  std::vector<Peer*> taken_;  ///< whose mails the last poll handed out
  uint32_t idle_ = 0;
  int64_t next_look_ns_ = 0;
  bool closing_ = false;
  bool closed_ = false;  ///< with all peers
  std::optional<Failure> failure_;
  /// A connection that broke. It may have because the peer died, which others know better: they
  /// have some time to say so.
  struct Suspect {
    Failure failure;
    int64_t since_ns = 0;
  };
  std::optional<Suspect> suspect_;
  uint64_t credits_ = 0, flushes_ = 0, rendezvous_ = 0, probes_ = 0;
  TransportCounters counters_;
};

}  // namespace ibcoll::ucx
