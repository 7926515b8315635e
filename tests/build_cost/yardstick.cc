// What the cost of a build is measured in: some work for the compiler that no change of the project
// alters.
#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

std::string yardstick(const std::string& text) {
  std::unordered_map<std::string, std::vector<double>> values;
  std::map<std::string, std::function<double(const std::vector<double>&)>> summaries{
      {"sum", [](const auto& of) { return std::accumulate(of.begin(), of.end(), 0.0); }},
      {"largest", [](const auto& of) { return *std::max_element(of.begin(), of.end()); }}};
  const nlohmann::json parsed = nlohmann::json::parse(text);
  const std::regex names("[a-z_]+");
  for (const auto& [name, list] : parsed.items()) {
    if (std::regex_match(name, names)) values[name] = list.get<std::vector<double>>();
  }
  nlohmann::json result;
  for (auto& [name, list] : values) {
    std::stable_sort(list.begin(), list.end());
    for (const auto& [summary, of] : summaries) result[name][summary] = of(list);
  }
  std::variant<std::string, nlohmann::json> shown = result;
  return std::get<nlohmann::json>(shown).dump();
}
