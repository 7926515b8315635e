#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "topology/readers/readers.h"

namespace ibcoll::topology {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 1u << 30;

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return fail(ErrorCode::kInvalidArgument, "{} is a directory, not a fabric file", path);
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return fail(ErrorCode::kInvalidArgument, "can't read {}: {}", path,
                errno != 0 ? std::strerror(errno) : "no reason given");
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMaxFileBytes) {
    return fail(ErrorCode::kInvalidArgument, "{} has {} bytes: at most {}", path, bytes,
                kMaxFileBytes);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

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

}  // namespace

Result<Fabric> read_fabric_file(const std::string& path, const std::string& tables,
                                const ReadOptions& options) {
  IBCOLL_ASSIGN(const std::string text, read_text(path));
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
      IBCOLL_ASSIGN(routes, read_text(tables));
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

}  // namespace ibcoll::topology
