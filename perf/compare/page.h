#pragma once
/// The page of compare_mpi: tables in Markdown.

#include <string>
#include <vector>

#include "perf/compare/tables.h"

namespace ibcoll::compare {

/// All tables in Markdown, those of several machines side by side: the machines, geometric means,
/// and every cell.
std::string page(const std::vector<Tables>& machines);

}  // namespace ibcoll::compare
