#pragma once
/// Task graphs of known computations, one assignment statement a task, weight 1 unless said
/// otherwise. Edges are flow dependences only; the entries of input matrices are held by all
/// processors at the start.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "studies/task_graph/graph.h"

namespace ibcoll::task_graph {

/// Gauss-Jordan elimination on an n x (n+1) matrix, reading A: in step k the pivot row and every
/// other row are updated for j = k..n, column k included. n^2 (n+3) / 2 tasks.
/// `statement`, if given, receives for each task what it computes.
struct MatrixStatement;
TaskGraph gauss_jordan(int n, std::vector<MatrixStatement>* statements = nullptr);

/// Gauss-Jordan, reading B: p = a[k][k] and q = a[i][k] are tasks of their own and the loops start
/// at j = k+1. As many tasks as reading A.
TaskGraph gauss_jordan_b(int n, std::vector<MatrixStatement>* statements = nullptr);

/// LU decomposition without pivoting of an n x n matrix; (n^3 - n) / 3 tasks.
TaskGraph lu_decomposition(int n, std::vector<MatrixStatement>* statements = nullptr);

/// One assignment to a matrix entry (row, column) in elimination step k (all from 0).
struct MatrixStatement {
  enum class Kind : uint8_t {
    kDivide,    ///< a[row][column] /= a[k][k] (Gauss-Jordan), a[row][column] /= a[k][k] (LU)
    kSubtract,  ///< a[row][column] -= a[row][k] * a[k][column]
    kCopy,      ///< reading B: p or q takes the value of a[row][column]
  };
  Kind kind;
  int16_t row;
  int16_t column;
  int16_t step;
  /// The tasks that made its operands: a[row][column], then a[k][k] (divide) or a[row][k] and
  /// a[k][column] (subtract); -1: the entry of the input matrix, or no such operand.
  std::array<TaskId, 3> operands;
};
using StatementKind = MatrixStatement::Kind;

/// Radix-2 FFT of `points` (a power of two): (log2(points) + 1) * points tasks, a butterfly's two
/// outputs each needing both inputs.
TaskGraph fft(int points);

/// Sweep of a (2 dimensions) stencil over a rows x columns grid: each point needs its upper and
/// its left neighbour.
TaskGraph stencil_sweep(int rows, int columns);

/// `layers` layers of `width` tasks, weights uniform in [1, max_weight], each task needing 1 to
/// `degree` tasks of the layer before.
TaskGraph random_layered(int layers, int width, int degree, Time max_weight, uint64_t seed);

/// Random graph without layers: each pair (i < j) is an edge with probability `density`.
TaskGraph random_graph(int tasks, double density, Time max_weight, uint64_t seed);

/// Complete trees of the given arity and depth (depth 0: one task): results flow to the root
/// (reduction) or from it (broadcast).
TaskGraph reduction_tree(int arity, int depth);
TaskGraph broadcast_tree(int arity, int depth);

/// Shapes of scientific workflows (Bharathi et al., Characterization of Scientific Workflows, 2008;
/// Juve et al., Characterizing and Profiling Scientific Workflows, 2013). The unit is 10 ms: tasks
/// take about as long as in such profiles, each up to a fifth shorter or longer.

/// Montage, a mosaic of `images` images on a square of the sky: each is projected, overlaps of
/// neighbours are fitted, all fits are joined into one model, by which each image is corrected,
/// and one table, sum, reduction and picture follow.
TaskGraph montage(int images, uint64_t seed);

/// Epigenomics: `lanes` inputs are each split into `pieces`, which are filtered, converted and
/// mapped one by one and joined again; all lanes then become one index and one pile.
TaskGraph epigenomics(int lanes, int pieces, uint64_t seed);

/// LIGO Inspiral: `groups` of `segments` each: a template bank and a matched filter a segment, one
/// coincidence a group, trigger banks and filters again, and one coincidence more.
TaskGraph ligo(int groups, int segments, uint64_t seed);

/// CyberShake: `sites` of two strain tensors each, `variations` seismograms of each, and a peak of
/// each seismogram; all seismograms are packed, and all peaks.
TaskGraph cybershake(int sites, int variations, uint64_t seed);

/// A graph from its description: "gauss-jordan:128", "gauss-jordan-b:64", "lu:128", "fft:256",
/// "stencil:32x64", "layered:LAYERSxWIDTH[:DEGREE[:MAX_WEIGHT[:SEED]]]",
/// "random:TASKS[:PERCENT[:MAX_WEIGHT[:SEED]]]", "in-tree:ARITY:DEPTH", "out-tree:ARITY:DEPTH",
/// "montage:IMAGES[:SEED]", "epigenomics:LANESxPIECES[:SEED]", "ligo:GROUPSxSEGMENTS[:SEED]",
/// "cybershake:SITESxVARIATIONS[:SEED]".
/// The error names what is wrong and the limits; unsupported when it isn't a generator's name.
Result<TaskGraph> generate(std::string_view description);

/// One line for each generator, for help texts.
std::string generator_help();

}  // namespace ibcoll::task_graph
