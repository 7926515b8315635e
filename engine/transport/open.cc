#include "engine/transport/open.h"

#include <algorithm>

#include "engine/base/log.h"
#include "engine/transport/loopback.h"
#include "verbs/network_kind.h"

namespace ibcoll {
namespace {

constexpr std::string_view kAuto = "auto", kLoopback = "loopback", kVerbs = "verbs";

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
  static std::vector<NetworkKind> all{{.name = kLoopback, .open = open_loopback},
                                      verbs::network_kind()};
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

}  // namespace

void register_network(const NetworkKind& kind) { kinds().insert(kinds().begin(), kind); }

Result<OpenedNetwork> open_network(const NetworkSetup& setup, std::string_view wanted) {
  if (wanted == "shm") {
    return fail(ErrorCode::kInvalidArgument,
                "shared memory alone can't join {} servers: choose another IBCOLL_TRANSPORT",
                setup.shape.servers());
  }
  const bool emulated = wanted == kAuto && on_one_machine(setup);
  if (wanted == kAuto) wanted = emulated ? kLoopback : kVerbs;
  IBCOLL_ASSIGN(const NetworkKind* const kind, find_kind(wanted));
  OpenedNetwork opened;
  IBCOLL_ASSIGN(opened.transport, kind->open(setup));
  opened.reason = opened.transport->name();
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

}  // namespace ibcoll
