#pragma once
/// Fabrics from files and from a live subnet. Each reader takes the text and the name that errors
/// call it by ("name:line: reason"), and refuses what is malformed, ambiguous or leaves a pair of
/// hosts without a route. What it had to leave out or choose stands in Fabric::notes().

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// What files don't say.
struct ReadOptions {
  double bandwidth = 2000e6;                 ///< of links without one, bytes a second
  std::vector<double> trunks;                ///< of those between switches; empty: `bandwidth`
  int64_t latency_ns = 200;                  ///< of links without one
  std::optional<int64_t> switch_latency_ns;  ///< of passing a switch, where the file has none: 0
};

/// Output of `ibnetdiscover`, with the forwarding tables of `dump_fts` or of opensm's
/// `opensm-lfts.dump` (empty: routes of fewest hops). Hosts come in the natural order of names.
Result<Fabric> read_ibnetdiscover(std::string_view text, const std::string& name,
                                  std::string_view tables, const std::string& tables_name,
                                  const ReadOptions& options = {});

/// Slurm's topology.conf (topology/tree): switches with their nodes and switches. Routes are of
/// fewest hops; hosts come in the order of the file.
Result<Fabric> read_slurm(std::string_view text, const std::string& name,
                          const ReadOptions& options = {});

/// ibcoll's own JSON, as docs/fabrics.md describes it.
Result<Fabric> read_json(std::string_view text, const std::string& name,
                         const ReadOptions& options = {});
/// The same format written: read_json gives an equal fabric.
std::string write_json(const Fabric& fabric);

/// The subnet that this machine is in, asked through libibnetdisc; `device` as ibstat names it
/// (empty: the first). kUnsupported where ibcoll was built without that library.
Result<Fabric> discover(const std::string& device, const ReadOptions& options = {});

/// Reads a file of any of these formats, which its beginning tells apart. `tables` is the path of
/// forwarding tables for ibnetdiscover's output, or empty.
Result<Fabric> read_fabric_file(const std::string& path, const std::string& tables,
                                const ReadOptions& options = {});

}  // namespace ibcoll::topology
