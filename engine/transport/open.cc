#include "engine/transport/open.h"

#include <algorithm>

#include "engine/base/log.h"
#include "engine/transport/loopback.h"
#include "ucx/network_kind.h"
#include "verbs/network_kind.h"

namespace ibcoll {
namespace {

constexpr std::string_view kAuto = "auto", kLoopback = "loopback", kVerbs = "verbs", kUcx = "ucx";

bool on_one_machine(const NetworkSetup& setup) {
  return std::all_of(setup.machines.begin(), setup.machines.end(),
                     [](int machine) { return machine == 0; });
}

Result<std::unique_ptr<NetworkTransport>> open_loopback(const NetworkSetup& setup) {
  if (!on_one_machine(setup)) {
    return fail(ErrorCode::kUnsupported,
                "the loopback joins emulated servers of one machine; these ranks run on several");
  }
  return create_loopback(setup.bootstrap, setup.bells, setup.places,
                         loopback_options_from_environment(setup.loopback_seed));
}

std::vector<NetworkKind>& kinds() {
  static std::vector<NetworkKind> all{
      {.name = kLoopback, .open = open_loopback}, verbs::network_kind(), ucx::network_kind()};
  return all;
}

Result<const NetworkKind*> find_kind(std::string_view name) {
  for (const NetworkKind& kind : kinds())
    if (kind.name == name) return &kind;
  return fail(ErrorCode::kUnsupported, "this build has no transport '{}' between servers", name);
}

/// Why servers that are emulated on one machine don't use a device by themselves.
std::string why_no_device() {
  const Result<std::string> port = usable_network_port(kVerbs);
  return port ? fmt::format("servers emulated on one machine; verbs would use {}", *port)
              : port.error().message;
}

/// Between machines: what carries most where all ranks can use it, with the reason. Kinds fail on
/// all ranks alike, so that all take the same.
Result<OpenedNetwork> open_best(const NetworkSetup& setup) {
  OpenedNetwork opened;
  std::string reasons;
  for (const std::string_view name : {kVerbs, kUcx}) {
    IBCOLL_ASSIGN(const NetworkKind* const kind, find_kind(name));
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

void register_network(const NetworkKind& kind) { kinds().insert(kinds().begin(), kind); }

Result<OpenedNetwork> open_network(const NetworkSetup& setup, std::string_view wanted) {
  if (wanted == "shm") {
    return fail(ErrorCode::kInvalidArgument,
                "shared memory alone can't join {} servers: choose another IBCOLL_TRANSPORT",
                setup.shape.servers());
  }
  const bool emulated = wanted == kAuto && on_one_machine(setup);
  if (wanted == kAuto && !emulated) return open_best(setup);
  if (emulated) wanted = kLoopback;
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_kind(wanted));
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
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_kind(name));
  return kind->usable_port != nullptr ? kind->usable_port() : std::string();
}

Result<bool> network_costs_cores(std::string_view name) {
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_kind(name));
  return kind->costs_cores;
}

}  // namespace ibcoll
