#include "topology/distort.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "topology/readers/readers.h"

namespace ibcoll::topology {

Result<Fabric> distort(const Fabric& fabric, double r, uint64_t seed) {
  if (!(r >= 0 && r <= 0.95)) {
    return fail(ErrorCode::kInvalidArgument, "inputs wrong by {}: must be 0 to 0.95", r);
  }
  std::mt19937_64 random(seed);
  const auto wrong = [&](double x) {
    const double drawn = static_cast<double>(random() >> 11) * 0x1p-53;
    return ((2 * drawn - 1) * r + 1) * x;
  };
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(write_json(fabric));
  for (auto& cable : json.at("cables")) {
    cable["bandwidth"] = wrong(cable.at("bandwidth").get<double>());
    cable["latency_ns"] = std::llround(wrong(cable.at("latency_ns").get<double>()));
  }
  return read_json(json.dump(), fabric.name());
}

}  // namespace ibcoll::topology
