#include "verbs/gid_choice.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <tuple>
#include <utility>

namespace ibcoll::verbs {

namespace {

bool is_ipv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

/// How far an address reaches.
enum class Reach { kNowhereYet, kLink, kNetwork };

Reach reach_of(const ibv_gid& gid) {
  if (is_ipv4(gid))
    return gid.raw[12] == 169 && gid.raw[13] == 254 ? Reach::kNowhereYet : Reach::kNetwork;
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80 ? Reach::kLink : Reach::kNetwork;
}

/// Whether an interface of this network namespace has the address.
bool has_address(const std::string& name, const ibv_gid& gid) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return true;  // nobody says
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || name != entry->ifa_name) continue;
    if (is_ipv4(gid) && entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      if (std::memcmp(&address->sin_addr, gid.raw + 12, sizeof address->sin_addr) == 0) return true;
    } else if (!is_ipv4(gid) && entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (std::memcmp(&address->sin6_addr, gid.raw, sizeof gid.raw) == 0) return true;
    }
  }
  return false;
}

}  // namespace

GidInterface interface_of(const ibv_gid_entry& entry) {
  if (entry.ndev_ifindex == 0) return {};
  char name[IF_NAMESIZE] = "";
  if (if_indextoname(entry.ndev_ifindex, name) == nullptr) return {.here = false};
  GidInterface found;
  // Interfaces of another namespace may have the same number here, but not the same address. The
  // GID that is made of an adapter's own number stands for none.
  found.here = reach_of(entry.gid) == Reach::kLink || has_address(name, entry.gid);
  std::ifstream about(std::string("/sys/class/net/") + name + "/uevent");
  for (std::string line; std::getline(about, line);) found.vlan |= line == "DEVTYPE=vlan";
  return found;
}

std::vector<ibv_gid_entry> ranked_gids(std::span<const ibv_gid_entry> entries,
                                       const FindInterface& interface) {
  using Rank = std::tuple<bool, Reach, bool, bool>;  // higher is better
  std::vector<std::pair<Rank, ibv_gid_entry>> here;
  for (const ibv_gid_entry& entry : entries) {
    const GidInterface own = interface(entry);
    if (own.here)
      here.push_back({Rank{entry.gid_type == IBV_GID_TYPE_ROCE_V2, reach_of(entry.gid), !own.vlan,
                           is_ipv4(entry.gid)},
                      entry});
  }
  std::stable_sort(here.begin(), here.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<ibv_gid_entry> ranked;
  for (const auto& [rank, entry] : here) ranked.push_back(entry);
  return ranked;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  return inet_ntop(AF_INET6, gid.raw, text, sizeof text) ? text : "";
}

const char* gid_type_name(uint32_t type) {
  return type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "IB";
}

}  // namespace ibcoll::verbs
