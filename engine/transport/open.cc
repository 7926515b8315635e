#include "engine/transport/open.h"

#include <algorithm>
#include <functional>

#include "engine/base/log.h"
#include "engine/transport/loopback.h"
#include "engine/transport/network_kinds.h"

namespace ibcoll {
namespace {

constexpr std::string_view kAuto = "auto";

std::vector<NetworkKind>& kinds() {
  static std::vector<NetworkKind> all = [] {
    std::vector<NetworkKind> built = built_network_kinds();
    built.push_back(loopback_kind());
    return built;
  }();
  return all;
}

/// What `auto` tries between machines, in this order.
std::vector<const NetworkKind*> preferred_kinds() {
  std::vector<const NetworkKind*> all;
  for (const NetworkKind& kind : kinds())
    if (kind.preference > 0 && find_network(kind.name) == &kind) all.push_back(&kind);
  std::stable_sort(all.begin(), all.end(), [](const NetworkKind* a, const NetworkKind* b) {
    return a->preference > b->preference;
  });
  return all;
}

/// Why servers that are emulated on one machine don't use a device by themselves.
std::string why_no_device() {
  const std::vector<const NetworkKind*> all = preferred_kinds();
  if (all.empty() || all.front()->usable_port == nullptr) return "servers emulated on one machine";
  const NetworkKind& best = *all.front();
  const Result<std::string> port = best.usable_port();
  return port ? fmt::format("servers emulated on one machine; {} would use {}", best.name, *port)
              : port.error().message;
}

/// Between machines: what carries most where all ranks can use it, with the reason. Kinds fail on
/// all ranks alike, so that all take the same.
Result<OpenedNetwork> open_best(NetworkSetup setup) {
  OpenedNetwork opened;
  setup.may_decline = true;
  std::string reasons;
  for (const NetworkKind* const kind : preferred_kinds()) {
    Result<std::unique_ptr<NetworkTransport>> transport = kind->open(setup);
    if (transport) {
      opened.transport = std::move(*transport);
      opened.reason = opened.transport->name();
      opened.costs_cores = kind->costs_cores;
      if (!reasons.empty() && setup.bootstrap.rank() == 0) {
        log().info("{} joins these machines: {}", opened.reason, reasons);
        opened.reason += fmt::format(" (auto: {})", reasons);
      }
      return opened;
    }
    if (transport.error().code != ErrorCode::kUnsupported)
      return tl::unexpected<Error>(transport.error());
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", transport.error().message);
  }
  return fail(ErrorCode::kUnsupported, "nothing joins these machines: {}", reasons);
}

}  // namespace

Result<const NetworkKind*> find_network(std::string_view name) {
  for (const NetworkKind& kind : kinds())
    if (kind.name == name) return &kind;
  return fail(ErrorCode::kUnsupported, "this build has no transport '{}' between servers", name);
}

void register_network(const NetworkKind& kind) { kinds().insert(kinds().begin(), kind); }

Result<OpenedNetwork> open_network(const NetworkSetup& setup, std::string_view wanted) {
  if (wanted == "shm") {
    return fail(ErrorCode::kInvalidArgument,
                "shared memory alone can't join {} servers: choose another IBCOLL_TRANSPORT",
                setup.shape.servers());
  }
  const bool emulated = wanted == kAuto && setup.on_one_machine();
  if (wanted == kAuto && !emulated) return open_best(setup);
  if (emulated) wanted = loopback_kind().name;
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_network(wanted));
  OpenedNetwork opened;
  IBCOLL_ASSIGN(opened.transport, kind->open(setup));
  opened.reason = opened.transport->name();
  opened.costs_cores = kind->costs_cores;
  if (emulated && setup.bootstrap.rank() == 0) {
    const std::string why = why_no_device();
    log().info("the software loopback joins these emulated servers: {}", why);
    opened.reason += fmt::format(" (auto: {})", why);
  }
  return opened;
}

Result<std::string> usable_network_port(std::string_view name) {
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_network(name));
  return kind->usable_port != nullptr ? kind->usable_port() : std::string();
}

std::vector<NetworkPort> network_ports() {
  std::vector<NetworkPort> all;
  for (const NetworkKind& kind : kinds()) {
    if (kind.ports == nullptr) continue;
    const std::vector<NetworkPort> ports = kind.ports();
    all.insert(all.end(), ports.begin(), ports.end());
  }
  return all;
}

std::vector<std::string_view> networks_of_known_memory() {
  std::vector<NetworkKind> known = kinds();
  std::erase_if(known, [](const NetworkKind& kind) { return kind.memory == nullptr; });
  std::ranges::stable_sort(known, std::ranges::greater(), &NetworkKind::preference);
  std::vector<std::string_view> names;
  for (const NetworkKind& kind : known) names.push_back(kind.name);
  return names;
}

Result<NetworkMemory> network_memory(std::string_view name, const NetworkLoad& load) {
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_network(name));
  if (kind->memory == nullptr)
    return fail(ErrorCode::kUnsupported, "what transport '{}' takes of memory is not known", name);
  return kind->memory(load);
}
}  // namespace ibcoll
