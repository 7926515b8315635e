#include "studies/measure/contenders.h"

#include "engine/algorithms/registry.h"
#include "engine/base/units.h"

namespace ibcoll::measure {

std::string Contender::label() const {
  return pacing ? fmt::format("{}/{}", algorithm, to_string(*pacing)) : algorithm;
}

Result<std::vector<Contender>> select_contenders(Collective collective, std::string_view algorithms,
                                                 std::string_view pacings) {
  std::vector<std::optional<Pacing>> wanted;
  for (const std::string_view name : split(pacings, ',')) {
    if (name == "auto") {
      wanted.emplace_back();
      continue;
    }
    IBCOLL_ASSIGN(const Pacing pacing, parse_pacing(name));
    wanted.emplace_back(pacing);
  }
  if (wanted.empty()) wanted.emplace_back();
  std::vector<Contender> contenders;
  const auto add = [&](const Algorithm& algorithm) {
    for (const auto& pacing : wanted) {
      contenders.push_back({std::string(algorithm.name), algorithm.paced ? pacing : std::nullopt});
      if (!algorithm.paced) break;
    }
  };
  for (const std::string_view name : split(algorithms, ',')) {
    if (name == "auto") {
      for (const auto& pacing : wanted) contenders.push_back({"auto", pacing});
    } else if (name == "all") {
      for (const Algorithm& algorithm : ibcoll::algorithms()) {
        if (algorithm.collective == collective) add(algorithm);
      }
    } else {
      IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(collective, name));
      add(*algorithm);
    }
  }
  if (contenders.empty()) return fail(ErrorCode::kInvalidArgument, "no algorithm is named");
  return contenders;
}

}  // namespace ibcoll::measure
