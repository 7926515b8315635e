#include "verbs/port_defaults.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

namespace ibcoll::verbs {

int default_traffic_class(const std::string& device, int port, const std::string& root) {
  constexpr int kMost = 255;
  const auto valid = [](int value) { return value > 0 && value <= kMost; };
  // "Global tclass=106", where one is set; lines about single addresses follow.
  constexpr std::string_view kGlobal = "Global tclass=";
  std::ifstream driver(
      fmt::format("{}/sys/class/infiniband/{}/tc/{}/traffic_class", root, device, port));
  for (std::string line; std::getline(driver, line);) {
    if (!line.starts_with(kGlobal)) continue;
    if (const int value = std::atoi(line.c_str() + kGlobal.size()); valid(value)) return value;
  }
  std::ifstream kernel(
      fmt::format("{}/sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_tos", root, device, port));
  int value = 0;
  return kernel >> value && valid(value) ? value : 0;
}

}  // namespace ibcoll::verbs
