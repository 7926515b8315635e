#pragma once
/// Communication matrices in files.

#include <istream>
#include <string>

#include "studies/mapping/matrix.h"

namespace ibcoll::topology {

/// Reads a matrix; what it is shows in its text, except that a METIS graph has a name ending in
/// ".graph":
/// - MatrixMarket: begins with %%MatrixMarket; coordinate or array, real, integer or pattern (each
///   entry one byte), general or symmetric;
/// - CSV: lines with commas, one row of the square matrix each, entry (row, column) sent by row;
/// - edge list: lines "FROM TO BYTES", tasks from 0, `#` begins a comment; a comment "# tasks N"
///   says how many tasks there are, otherwise the largest one does;
/// - METIS graph: "VERTICES EDGES [FORM [WEIGHTS]]", then a line a vertex with its neighbours, from
///   1, and the weights of the edges if FORM says so, which are the bytes that it sends (else one).
///   Sizes and weights of vertices are read over.
/// Errors name `name`, the line and what is wrong.
Result<CommMatrix> read_matrix(std::istream& input, const std::string& name);
Result<CommMatrix> read_matrix_file(const std::string& path);

/// Writes an edge list that read_matrix reads back.
void write_edge_list(const CommMatrix& matrix, std::ostream& output);

}  // namespace ibcoll::topology
