#include "engine/core/network_choice.h"

#ifdef IBCOLL_HAVE_VERBS
#include "verbs/device.h"
#include "verbs/transport.h"
#endif

namespace ibcoll {
namespace {

/// Why emulated servers don't use verbs by themselves.
std::string why_not_verbs() {
#ifdef IBCOLL_HAVE_VERBS
  const auto options = verbs::TransportOptions::from_environment();
  if (!options) return options.error().message;
  const auto ports = verbs::usable_ports(options->devices);
  if (!ports) return ports.error().message;
  return fmt::format("servers emulated on one machine; verbs would use {}", ports->front().name());
#else
  return "this build has no verbs";
#endif
}

}  // namespace

std::string describe_network(Context& context, const ContextOptions& options) {
  if (context.network() == nullptr) return "none";
  const std::string name = context.network()->name();
  if (options.transport != "auto" || name != "loopback") return name;
  return fmt::format("{} (auto: {})", name, why_not_verbs());
}

}  // namespace ibcoll
