#include "studies/fabrics/export.h"

#include <map>

namespace ibcoll::topology {
namespace {

/// A text between double quotes, in which none may stand.
std::string quoted(std::string text) {
  for (char& c : text) {
    if (c == '"' || c == '\\' || c == '\n') c = '_';
  }
  return '"' + text + '"';
}

}  // namespace

std::string ibsim_net(const Fabric& fabric) {
  std::string text = fmt::format("# {}\n", fabric.name());
  for (int node = 0; node < fabric.nodes(); ++node) {
    text += fmt::format("\n{}\t{} {}\n", fabric.is_host(node) ? "Hca" : "Switch",
                        std::max(1, fabric.ports(node)), quoted(fabric.node(node).name));
    for (int port = 1; port <= fabric.ports(node); ++port) {
      const int link = fabric.link_at(node, port);
      if (link < 0) continue;
      text += fmt::format("[{}]\t{}[{}]\n", port, quoted(fabric.node(fabric.link(link).to).name),
                          fabric.link(link).to_port);
    }
  }
  return text;
}

std::string graphviz(const Fabric& fabric) {
  std::string text = fmt::format("graph {} {{\n", quoted(fabric.name()));
  for (int node = 0; node < fabric.nodes(); ++node) {
    text += fmt::format("  n{} [label={}, shape={}];\n", node, quoted(fabric.node(node).name),
                        fabric.is_host(node) ? "box" : "ellipse");
  }
  std::map<std::pair<int, int>, std::pair<int, double>> bundles;  // cables, bytes a second
  for (int link = 0; link < fabric.links(); link += 2) {
    const auto ends = std::minmax(fabric.link(link).from, fabric.link(link).to);
    auto& [cables, bandwidth] = bundles[ends];
    ++cables;
    bandwidth += fabric.link(link).bandwidth;
  }
  for (const auto& [ends, bundle] : bundles) {
    text += fmt::format("  n{} -- n{} [label=\"{}{:g} MB/s\"];\n", ends.first, ends.second,
                        bundle.first > 1 ? fmt::format("{} x ", bundle.first) : "",
                        bundle.second / bundle.first / 1e6);
  }
  return text + "}\n";
}

}  // namespace ibcoll::topology
