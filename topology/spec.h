#pragma once
/// Fabrics as people name them on command lines: "fat-tree:8,3,bandwidth=100Gbit/s".

#include <string>
#include <string_view>

#include "topology/fabric.h"

namespace ibcoll::topology {

/// Makes the fabric that a specification describes: KIND:NUMBERS[,KEY=VALUE]... (spec_help() lists
/// kinds and keys). Errors name the part that is wrong.
Result<Fabric> parse_fabric_spec(std::string_view text);

/// Whether the text starts with a kind of parse_fabric_spec, known or misspelt, rather than being
/// the path of a file.
bool looks_like_spec(std::string_view text);

/// Kinds and keys with an example each, a line each, for --help.
std::string spec_help();

/// Opens what `--network` takes: a specification; the path of a file that read_fabric_file knows,
/// with keys behind it ("net.topo,routes=net.fts,latency=300ns"); or "live" with an optional
/// device.
Result<Fabric> open_fabric(const std::string& text);

}  // namespace ibcoll::topology
