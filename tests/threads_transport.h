#pragma once
/// A network between ranks that are threads of one process, as plain as one can be: a put is a
/// copy, a signal or mail an entry in the inbox of whom it is for.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/transport/network_kind.h"

namespace ibcoll::testing {

class ThreadsTransport final : public NetworkTransport {
 public:
  static constexpr const char* kName = "threads";

  /// Adds it to what open_network() knows.
  static void add();

  /// Collective: the ranks share what the first one makes.
  static Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup);

  const char* name() const override { return kName; }

  Result<MemoryKey> register_memory(void* base, size_t bytes) override;
  /// What was registered once stays: it serves all that lies in it.
  void deregister_memory(const MemoryKey&) override {}

  /// Longer than eight bytes, as on networks that have more to tell.
  size_t pack_key(const MemoryKey& key, std::span<std::byte> packed) const override;
  Result<uint64_t> unpack_key(Rank peer, std::span<const std::byte> packed) override;

  bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
           size_t bytes, uint64_t immediate) override;
  size_t max_put_segments() const override { return 2; }
  bool put_segments(Rank peer, std::span<const PutSegment> segments, const MemoryKey& source_key,
                    RemoteAddress target, uint64_t immediate) override;
  bool signal(Rank peer, uint32_t immediate) override;
  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override;

  size_t poll(std::span<Arrival> arrivals) override;

  uint64_t posted(Rank peer) const override { return posted_[static_cast<size_t>(peer)]; }
  uint64_t completed(Rank peer) override { return posted(peer); }
  bool wake_on_arrival(Bell&) override { return true; }  // whoever delivers rings the bell
  std::optional<Failure> failure() const override { return failure_; }
  const TransportCounters& counters() const override { return counters_; }
  Status close() override { return bootstrap_.barrier(); }

 private:
  static constexpr int kMailsOfPeer = 2;
  static constexpr size_t kKeyBytes = 40;
  struct Message {
    Rank from = -1;
    uint32_t immediate = 0;
    bool is_mail = false;
    std::vector<std::byte> bytes;
  };
  struct Region {
    uint64_t address = 0;
    size_t bytes = 0;
  };
  /// What one rank's peers see of it.
  struct Node {
    std::mutex mutex;
    std::deque<Message> inbox;
    std::map<Rank, int> mails_of;  ///< not taken yet, by sender
    std::map<uint64_t, Region> regions;
  };

  ThreadsTransport(Bootstrap& bootstrap, std::span<Bell> bells,
                   std::shared_ptr<std::vector<Node>> nodes);

  Node& node(Rank rank) { return (*nodes_)[static_cast<size_t>(rank)]; }

  bool covers(Rank owner, uint64_t key, uint64_t address, size_t bytes);
  bool copy(Rank peer, const void* source, const MemoryKey& key, RemoteAddress target,
            size_t bytes);
  bool arrive(Rank peer, size_t bytes, uint64_t immediate);
  /// False: there is no room.
  bool deliver(Rank peer, Message message);
  bool refuse(Rank peer, size_t bytes);
  bool count(Rank peer, size_t bytes);

  Bootstrap& bootstrap_;
  std::span<Bell> bells_;
  Rank me_;
  std::shared_ptr<std::vector<Node>> nodes_;
  std::vector<uint64_t> posted_;
  std::vector<Message> taken_;  ///< handed out by the last poll
  std::optional<Failure> failure_;
  TransportCounters counters_;
};

}  // namespace ibcoll::testing
