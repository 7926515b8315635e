/// ib_topo: describes, checks, converts and draws fabrics.

#include <algorithm>
#include <map>

#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "studies/fabrics/analysis.h"
#include "studies/fabrics/draw_fabric.h"
#include "studies/fabrics/export.h"
#include "tools/frame/frame.h"
#include "topology/readers/readers.h"
#include "topology/spec.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::topology;

struct Arguments {
  std::string network, json, output, format = "json";
  bool lanes = false;
  std::vector<std::string> route;
};

/// Routes between hosts, counted by their number of links.
std::map<int, int64_t> routes_by_hops(const Fabric& fabric) {
  std::map<int, int64_t> count;
  for (int from = 0; from < fabric.hosts(); ++from) {
    for (int to = 0; to < fabric.hosts(); ++to) {
      if (from != to) ++count[fabric.hops(from, to)];
    }
  }
  return count;
}

std::string link_name(const Fabric& fabric, int link) {
  const Link& l = fabric.link(link);
  return fmt::format("{}[{}] -> {}[{}]", fabric.node(l.from).name, l.from_port,
                     fabric.node(l.to).name, l.to_port);
}

std::string names(const Fabric& fabric, const std::vector<int>& loop) {
  std::string text;
  for (const int link : loop)
    text += fmt::format("{} -> ", fabric.node(fabric.link(link).from).name);
  return loop.empty() ? text : text + fabric.node(fabric.link(loop.front()).from).name;
}

Result<int> host_named(const Fabric& fabric, const std::string& name) {
  const auto node = fabric.find(name);
  if (node && fabric.is_host(*node)) return *node;
  return fail(ErrorCode::kInvalidArgument, "no host of {} is named '{}'", fabric.name(), name);
}

/// Cables by what they join and their speed.
Table cable_table(const Fabric& fabric, const std::vector<int64_t>& routes) {
  struct Group {
    int cables = 0;
    int64_t most = 0;
    int busiest = -1;
  };
  std::map<std::tuple<bool, double, int64_t>, Group> groups;
  for (int link = 0; link < fabric.links(); ++link) {
    const Link& l = fabric.link(link);
    const bool trunk = !fabric.is_host(l.from) && !fabric.is_host(l.to);
    Group& group = groups[{trunk, l.bandwidth, l.latency_ns}];
    group.cables += link % 2 == 0;
    if (group.busiest < 0 || routes[link] > group.most) {
      group.most = routes[link];
      group.busiest = link;
    }
  }
  Table table({"cables", "number", "MB/s", "latency", "most routes", "on"});
  for (const auto& [key, group] : groups) {
    const auto& [trunk, bandwidth, latency] = key;
    table.add_row({trunk ? "between switches" : "of hosts", fmt::format("{}", group.cables),
                   fmt::format("{:g}", bandwidth / 1e6), format_duration(latency),
                   fmt::format("{}", group.most), link_name(fabric, group.busiest)});
  }
  return table;
}

Status show_route(const Fabric& fabric, const Arguments& arguments, JsonLines& json) {
  IBCOLL_ASSIGN(const int from, host_named(fabric, arguments.route[0]));
  IBCOLL_ASSIGN(const int to, host_named(fabric, arguments.route[1]));
  Table table({"hop", "link", "MB/s", "latency"});
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  int hop = 0;
  fabric.visit_route(from, to, [&](int link) {
    const Link& l = fabric.link(link);
    links.push_back(link_name(fabric, link));
    table.add_row({fmt::format("{}", ++hop), link_name(fabric, link),
                   fmt::format("{:g}", l.bandwidth / 1e6), format_duration(l.latency_ns)});
  });
  if (!json.to_stdout()) print("{}", table.text());
  json.write({{"network", fabric.name()},
              {"from", arguments.route[0]},
              {"to", arguments.route[1]},
              {"latency_ns", fabric.route_latency_ns(from, to)},
              {"bandwidth_MBps", fabric.route_bandwidth(from, to) / 1e6},
              {"links", links}});
  return {};
}

Status info(const Fabric& fabric, const Arguments& arguments, JsonLines& json) {
  if (!arguments.route.empty()) return show_route(fabric, arguments, json);
  const std::vector<int64_t> routes = routes_over_links(fabric);
  const AllToAllLimit limit = all_to_all_limit(fabric, routes);
  const auto hops = routes_by_hops(fabric);
  nlohmann::ordered_json by_hops = nlohmann::ordered_json::object();
  std::string hops_text;
  double sum = 0;
  int64_t pairs = 0;
  for (const auto& [length, count] : hops) {
    by_hops[std::to_string(length)] = count;
    hops_text += fmt::format("{}{} of {} links", hops_text.empty() ? "" : ", ", count, length);
    sum += static_cast<double>(length) * static_cast<double>(count);
    pairs += count;
  }
  json.write({{"network", fabric.name()},
              {"hosts", fabric.hosts()},
              {"switches", fabric.switches()},
              {"cables", fabric.links() / 2},
              {"switch_latency_ns", fabric.switch_latency_ns()},
              {"mean_hops", pairs > 0 ? sum / static_cast<double>(pairs) : 0},
              {"routes_by_hops", by_hops},
              {"alltoall_limit_MBps", limit.bandwidth / 1e6},
              {"alltoall_limit_fraction", limit.fraction},
              {"alltoall_limit_link", limit.link < 0 ? "" : link_name(fabric, limit.link)},
              {"notes", fabric.notes()}});
  if (json.to_stdout()) return {};
  print("{}: {} hosts, {} switches, {} cables, {} to pass a switch\n", fabric.name(),
        fabric.hosts(), fabric.switches(), fabric.links() / 2,
        format_duration(fabric.switch_latency_ns()));
  if (!hops_text.empty()) print("routes: {}\n", hops_text);
  if (limit.link >= 0) {
    print(
        "uniform all-to-all: at most {:.4g} MB/s a host, {:.3g} % of the hosts' links, "
        "limited by {}\n",
        limit.bandwidth / 1e6, 100 * limit.fraction, link_name(fabric, limit.link));
  }
  for (const std::string& note : fabric.notes()) print("note: {}\n", note);
  print("\n{}", cable_table(fabric, routes).text());
  return {};
}

Status check(const Fabric& fabric, bool count_lanes, JsonLines& json) {
  const std::vector<int> loop = find_credit_loop(fabric);
  const int lanes = loop.empty() ? 1 : count_lanes ? lanes_needed(fabric) : 0;
  nlohmann::ordered_json line = {
      {"network", fabric.name()},           {"hosts", fabric.hosts()},
      {"switches", fabric.switches()},      {"cables", fabric.links() / 2},
      {"credit_loop", names(fabric, loop)}, {"notes", fabric.notes()}};
  if (lanes > 0) line["lanes"] = lanes;
  json.write(line);
  if (json.to_stdout()) return {};
  print("{}: holds: {} hosts reach each other over {} switches and {} cables\n", fabric.name(),
        fabric.hosts(), fabric.switches(), fabric.links() / 2);
  if (loop.empty()) {
    print("routes: free of credit loops on one virtual lane\n");
  } else {
    print(
        "routes: a credit loop on one virtual lane, which deadlocks unless service levels keep "
        "these "
        "apart: {}\n",
        names(fabric, loop));
    if (count_lanes) print("layered routing rids them of loops with {} lanes\n", lanes);
  }
  for (const std::string& note : fabric.notes()) print("note: {}\n", note);
  return {};
}

Status convert(const Fabric& fabric, const Arguments& arguments) {
  const std::string text = arguments.format == "json"    ? write_json(fabric)
                           : arguments.format == "ibsim" ? ibsim_net(fabric)
                                                         : graphviz(fabric);
  if (!arguments.output.empty() && arguments.output != "-") {
    return write_file(arguments.output, text);
  }
  print_text(text);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app("Describes, checks, converts and draws fabrics");
  Arguments a;
  tools::Command info_command =
      app.command("info", "Show sizes, speeds, routes, and what limits an all-to-all");
  tools::Command check_command = app.command(
      "check", "Read a fabric, check that all hosts reach each other, and look for credit loops");
  tools::Command convert_command = app.command("convert", "Write a fabric in another format");
  tools::Command draw_command = app.command("draw", "Draw a fabric");
  for (tools::Command command : {info_command, check_command, convert_command, draw_command}) {
    command
        .option("network,--network", a.network,
                "Network: a specification, a file or live, see below")
        .required();
  }
  info_command.option("--route", a.route, "Instead, show the route from one host to another")
      .values(2);
  check_command.flag("--lanes", a.lanes,
                     "Count the virtual lanes that keep the routes free of credit loops");
  for (tools::Command command : {info_command, check_command}) {
    tools::add_json_option(command, a.json, "one object");
  }
  convert_command
      .option("--to", a.format,
              "Format: ibcoll's JSON (json), ibsim's net file (ibsim) or Graphviz (dot)")
      .one_of({"json", "ibsim", "dot"})
      .with_default();
  convert_command.option("--output", a.output, "File to write (default: standard output)");
  draw_command.option("--output", a.output, "SVG file to write").required();
  app.footer(
      fmt::format("Networks:\n{}\nExamples:\n"
                  "  ib_topo info fat-tree:8,3,bandwidth=100Gbit/s\n"
                  "  ib_topo info fat-tree:4,2 --route h0 h15\n"
                  "  ib_topo check net.topo,routes=net.fts --json -\n"
                  "  ib_topo convert net.topo,routes=net.fts --output net.json\n"
                  "  ib_topo convert torus:4x4 --to ibsim --output torus.net\n"
                  "  ib_topo draw dragonfly:2,4,2 --output dragonfly.svg",
                  spec_help()));
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    IBCOLL_ASSIGN(const Fabric fabric, open_fabric(a.network));
    if (app.given("convert")) return convert(fabric, a);
    if (app.given("draw")) return write_file(a.output, draw_fabric(fabric));
    IBCOLL_ASSIGN(JsonLines json, JsonLines::open(a.json));
    IBCOLL_TRY(app.given("info") ? info(fabric, a, json) : check(fabric, a.lanes, json));
    return json.close();
  });
}
