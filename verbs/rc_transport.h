#pragma once
/// The transport behind create_transport().

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/sparse_objects.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/transport/connection_slots.h"
#include "engine/transport/network_kind.h"
#include "engine/transport/transport.h"
#include "verbs/arrival_watch.h"
#include "verbs/connect.h"
#include "verbs/device.h"
#include "verbs/port_counters.h"
#include "verbs/port_history.h"
#include "verbs/receive_queue.h"
#include "verbs/registrar.h"
#include "verbs/responder.h"
#include "verbs/send_completions.h"
#include "verbs/send_queue.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {

/// What of the job counts for a rank's own queues.
struct JobPlace {
  int peers = 0;       ///< ranks on other servers
  int on_machine = 0;  ///< this rank's, among those of its machine
  int sharing = 1;     ///< ranks for each device of its machine
};

class RcTransport final : public NetworkTransport, ConnectionSlots::Network {
 public:
  /// By which connections are made, and peers are answered.
  static constexpr uint32_t kDatagramQueuePairs = 2;
  /// Connections for which each of so many ranks of a machine finds queue pairs in a device of
  /// which others use some, too.
  static uint32_t share_of_device(const PortInfo& port, uint32_t ranks);

  /// Everything of this rank alone; connect_job() makes it part of a job.
  static Result<std::unique_ptr<RcTransport>> open(const PortInfo& port,
                                                   const TransportOptions& options,
                                                   const JobPlace& place);
  /// What it takes of memory on a ConnectX, without looking at this machine.
  static NetworkMemory memory(const NetworkLoad& load, const TransportOptions& options);
  /// Where peers reach this rank, at a port of which they know.
  RankAddress address(size_t port) const;
  /// Nothing fails where registrations can't be kept, so nobody would look for the reason.
  void warn_of_registrations() const;
  /// How many connections a rank may have at a time; 0: any number.
  struct Limits {
    uint32_t own = 0, fewest = 0;  ///< this rank; any one
  };
  void connect_job(Bootstrap& bootstrap, uint64_t job, AddressBook addresses, const Limits& limits);
  ~RcTransport() override;

  const char* name() const override { return "verbs"; }
  Result<MemoryKey> register_memory(void* base, size_t bytes) override;
  Result<MemoryKey> register_spare(void* base, size_t bytes) override;
  void deregister_memory(const MemoryKey& key) override { memory_->release(key); }
  bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
           size_t bytes, uint64_t immediate) override;
  size_t max_put_segments() const override;
  bool put_segments(Rank peer, std::span<const PutSegment> segments, const MemoryKey& source_key,
                    RemoteAddress target, uint64_t immediate) override;
  bool signal(Rank peer, uint32_t immediate) override;
  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override;
  size_t poll(std::span<Arrival> arrivals) override;
  uint64_t posted(Rank peer) const override;
  uint64_t completed(Rank peer) override;
  void flush() override;
  bool wake_on_arrival(Bell& bell) override;
  bool needs_polls() const override { return slots_.has_value(); }
  uint32_t max_connections() const override { return max_connections_; }
  bool survives_deaths() const override { return true; }
  void lose(Rank peer) override;
  void part(Rank peer) override;
  std::optional<Failure> failure() const override;
  const TransportCounters& counters() const override { return counters_; }
  std::vector<NamedCounter> details() const override;
  void withdraw() override;
  void drain(int64_t longest_ns) override;
  Status close() override;

 private:
  static constexpr uint32_t kMailsPerPeer = 2;
  /// Completions that are taken at once.
  static constexpr size_t kBatch = 16;
  /// A peer this rank exchanges data with.
  struct Peer {
    SendState send;
    uint32_t mails_sent = 0;
    uint32_t mails_taken_there = 0;  ///< as the peer said
    uint32_t mails_taken_here = 0;
    uint32_t mails_reported = 0;  ///< mails_taken_here as the peer knows it
    std::byte* mail_slots = nullptr;
    uint32_t mail_key = 0;
    bool heard = true;
    bool last_sent = false;             ///< nothing more goes over this connection
    std::optional<ibv_wc> last_failed;  ///< the acknowledgement of the last thing that was sent
    int64_t silent_since_ns = 0;
  };
  /// Memory for the mail slots of a number of peers.
  struct MailSlab {
    static constexpr size_t kPeers = 16;
    std::vector<std::byte> memory = std::vector<std::byte>(kPeers * kMailsPerPeer * kMaxMailBytes);
    MemoryHandle region;
    size_t used = 0;
  };

  RcTransport() = default;
  bool tell(Rank peer, ConnectionSlots::Word word) override;
  bool is_ready(Rank peer) override { return connector_->connection(peer)->usable(); }
  void wake() override {
    if (bell_ != nullptr) ring(*bell_);
  }
  bool has_arrived(Rank peer) override;
  void ended(Rank peer) override;
  void send_last(Peer& peer);
  void stop_sending(Rank rank);
  void forget(Peer& peer);
  Peer* usable(Rank peer);
  Peer* usable_of_few(Rank peer);
  void sent(Rank peer) {
    if (slots_) slots_->sent(peer);
  }
  Peer& enter(Rank peer);
  bool room(const Peer& peer, size_t requests, size_t bytes);
  bool add_mail_slots(Peer& peer);
  void count(size_t data_bytes);
  void take_sends();
  size_t take_arrivals(std::span<Arrival> arrivals);
  bool take_arrival(const ibv_wc& done, Arrival& arrival);
  void return_mails();
  void send_credit(Peer& peer);
  void tick(int64_t now_ns);
  void probe_silent(int64_t now_ns);
  void look_at_events(int64_t now_ns);
  void latch(Failure failure);
  void latch(const Status& status);
  void latch_connection(const Status& status, int64_t now_ns);
  void want(Rank peer);
  void suspect(Rank peer, Failure failure, bool certain, int64_t now_ns);
  void latch_send_error(const ibv_wc& done);
  void look_at_own_port(int64_t now_ns);
  void look_at_closing(Peer& peer, int64_t now_ns);
  void look_at_suspects(int64_t now_ns);
  /// Whether what is posted to a rank counts as done.
  bool is_parted(Rank rank) const {
    return !parted_.empty() && std::find(parted_.begin(), parted_.end(), rank) != parted_.end();
  }
  bool all_complete();

  TransportOptions options_;
  Device device_;
  std::unique_ptr<DeviceRegistrar> registrar_;
  std::unique_ptr<MemoryCache> memory_;
  std::vector<std::unique_ptr<MailSlab>> slabs_;
  ChannelHandle channel_;
  SendCompletions send_completions_;
  CompletionQueueHandle arrivals_;
  ReceiveQueue receives_;
  std::unique_ptr<Responder> responder_;
  std::unique_ptr<Connector> connector_;
  SendQueue sends_;
  std::unique_ptr<ArrivalWatch> watch_;

  Bootstrap* bootstrap_ = nullptr;
  Rank me_ = -1;
  size_t max_piece_ = 0;
  SparseObjects<Peer> peers_;  ///< by rank
  std::vector<Peer*> connected_;
  std::optional<ConnectionSlots> slots_;  ///< none: as many connections as are used
  uint32_t max_connections_ = 0;
  Bell* bell_ = nullptr;  ///< of this rank, once it has slept
  struct MailSlots {
    std::byte* memory;
    uint32_t key;
  };
  std::vector<MailSlots> free_mail_slots_;  ///< of connections that were closed
  struct TakenMail {
    Peer* peer;
    uint64_t receive;
  };
  std::vector<TakenMail> taken_;  ///< handed out by the last poll
  uint32_t idle_ = 0;
  int64_t next_look_ns_ = 0;
  std::optional<Failure> failure_;
  /// A connection that broke. It may have because the peer died, which others know better: they
  /// have the time to say so until the peer's responder answers.
  struct Suspect {
    Rank peer = -1;
    Failure failure;
    bool certain = false;  ///< the failure says why; else its reason may still come
    int64_t since_ns = 0;
    int64_t question_at_ns = 0;
    uint32_t heard = 0;  ///< of Responder, when it broke
    bool due = false;    ///< nobody has said so
  };
  std::vector<Suspect> suspects_;
  std::vector<Rank> parted_;  ///< peers that have died, or left
  PortHistory own_port_;
  std::optional<PortCounters> port_counters_;
  uint64_t probes_ = 0;
  uint64_t credits_ = 0;
  TransportCounters counters_;
};

}  // namespace ibcoll::verbs
