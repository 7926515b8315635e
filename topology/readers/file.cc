#include <sstream>

#include "engine/base/input.h"
#include "topology/readers/readers.h"

namespace ibcoll::topology {
namespace {

/// Whether a line of the text begins with `word` behind blanks, in any case.
bool has_line(const std::string& text, std::string_view word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line.size() < at + word.size()) continue;
    bool same = true;
    for (size_t i = 0; i < word.size(); ++i) {
      same = same && std::tolower(static_cast<unsigned char>(line[at + i])) == word[i];
    }
    if (same) return true;
  }
  return false;
}

Result<Fabric> read_any(const std::string& path, const std::string& tables,
                        const ReadOptions& options) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return fail(ErrorCode::kInvalidArgument, "{}:1: empty", path);
  const bool discovered =
      has_line(text, "vendid=") || has_line(text, "switchguid=") || has_line(text, "caguid=");
  if (!tables.empty() && !discovered) {
    return fail(ErrorCode::kInvalidArgument,
                "{} is not output of ibnetdiscover: forwarding tables go with that only", path);
  }
  if (text[first] == '{') return read_json(text, path, options);
  if (discovered) {
    std::string routes;
    if (!tables.empty()) {
      IBCOLL_ASSIGN(routes, read_input(tables));
    }
    return read_ibnetdiscover(text, path, routes, tables, options);
  }
  if (has_line(text, "switchname=") || has_line(text, "blockname=")) {
    return read_slurm(text, path, options);
  }
  return fail(ErrorCode::kInvalidArgument,
              "{}:1: neither ibcoll's JSON, nor output of ibnetdiscover, nor a topology.conf",
              path);
}

}  // namespace

Result<Fabric> read_fabric_file(const std::string& path, const std::string& tables,
                                const ReadOptions& options) {
  return of_input(read_any(path, tables, options));
}

}  // namespace ibcoll::topology
