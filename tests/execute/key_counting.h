#pragma once
/// The loopback, with a counter of the memory keys that ranks tell each other.

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/execute/exposure_mail.h"
#include "engine/transport/loopback.h"
#include "engine/transport/open.h"

namespace ibcoll::testing {

/// Its counter is named "keys".
class KeyCounting final : public NetworkTransport {
 public:
  explicit KeyCounting(std::unique_ptr<NetworkTransport> inner) : inner_(std::move(inner)) {}

  /// In the place of the loopback, from now on.
  static void replace_loopback() {
    register_network(
        {.name = "loopback", .open = [](const NetworkSetup& setup) { return open(setup); }});
  }

  const char* name() const override { return inner_->name(); }
  Result<MemoryKey> register_memory(void* base, size_t bytes) override {
    return inner_->register_memory(base, bytes);
  }
  void deregister_memory(const MemoryKey& key) override { inner_->deregister_memory(key); }
  size_t pack_key(const MemoryKey& key, std::span<std::byte> packed) const override {
    return inner_->pack_key(key, packed);
  }
  Result<uint64_t> unpack_key(Rank peer, std::span<const std::byte> packed) override {
    return inner_->unpack_key(peer, packed);
  }
  bool put(Rank peer, const void* source, const MemoryKey& source_key, RemoteAddress target,
           size_t bytes, uint64_t immediate) override {
    return inner_->put(peer, source, source_key, target, bytes, immediate);
  }
  size_t max_put_segments() const override { return inner_->max_put_segments(); }
  bool put_segments(Rank peer, std::span<const PutSegment> segments, const MemoryKey& source_key,
                    RemoteAddress target, uint64_t immediate) override {
    return inner_->put_segments(peer, segments, source_key, target, immediate);
  }
  bool signal(Rank peer, uint32_t immediate) override { return inner_->signal(peer, immediate); }
  bool mail(Rank peer, std::span<const std::byte> bytes, size_t data_bytes) override {
    if (!inner_->mail(peer, bytes, data_bytes)) return false;
    MailHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.kind == MailKind::kExposure)
      for_each_key(bytes, [this](const RegionKey&, auto) { ++keys_; });
    return true;
  }
  size_t poll(std::span<Arrival> arrivals) override { return inner_->poll(arrivals); }
  uint64_t posted(Rank peer) const override { return inner_->posted(peer); }
  uint64_t completed(Rank peer) override { return inner_->completed(peer); }
  void flush() override { inner_->flush(); }
  bool wake_on_arrival(Bell& bell) override { return inner_->wake_on_arrival(bell); }
  std::optional<Failure> failure() const override { return inner_->failure(); }
  const TransportCounters& counters() const override { return inner_->counters(); }
  std::vector<NamedCounter> details() const override { return {{"keys", keys_}}; }
  Status close() override { return inner_->close(); }

 private:
  static Result<std::unique_ptr<NetworkTransport>> open(const NetworkSetup& setup) {
    IBCOLL_ASSIGN(std::unique_ptr<NetworkTransport> inner,
                  create_loopback(setup.bootstrap, setup.bells, setup.processes,
                                  loopback_options_from_environment(setup.loopback_seed)));
    return std::make_unique<KeyCounting>(std::move(inner));
  }

  std::unique_ptr<NetworkTransport> inner_;
  uint64_t keys_ = 0;
};

}  // namespace ibcoll::testing
