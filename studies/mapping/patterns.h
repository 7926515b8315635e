#pragma once
/// Communication matrices of known programs and random graphs, to map without recording first.

#include <cstdint>
#include <string>
#include <string_view>

#include "studies/mapping/matrix.h"

namespace ibcoll::topology {

/// Bruck allgather: in steps d = 1, 2, 4 .. < tasks, task r sends min(d, tasks - d) blocks of
/// `block` bytes to (r + d) mod tasks (Sano, Kise 2011, fig. 7, sends to the same side).
Result<CommMatrix> bruck_allgather(int tasks, double block = 2048);

/// Nearest-neighbour exchange on a grid of `sides`, `bytes` each way; `periodic` joins the ends.
Result<CommMatrix> stencil(const std::vector<int>& sides, bool periodic, double bytes = 65536);

/// The transposes of a 3-D FFT in pencils on rows x columns tasks: alltoall of `bytes` a pair
/// inside each row and inside each column.
Result<CommMatrix> fft_transposes(int rows, int columns, double bytes = 4096);

/// Butterfly (recursive doubling): task r exchanges `bytes` with r xor 1, 2, 4 ...; `tasks` must be
/// a power of two.
Result<CommMatrix> butterfly(int tasks, double bytes = 65536);

/// Groups of `clique` tasks that all exchange `bytes`, and a ring of `bytes` / 8 through the
/// groups.
Result<CommMatrix> cliques(int tasks, int clique, double bytes = 65536);

/// `degree` random peers a task, bytes even over 1..65536.
Result<CommMatrix> random_sparse(int tasks, int degree, uint64_t seed);

/// Points even in the unit square, an edge where two are closer than the radius that gives `degree`
/// on average; bytes as a halo exchange: 65536 x (1 - distance / radius), at least 1.
Result<CommMatrix> random_geometric(int tasks, double degree, uint64_t seed);

/// Preferential attachment (Barabasi, Albert 1999): each new task joins `links` earlier ones, 65536
/// bytes each way.
Result<CommMatrix> power_law(int tasks, int links, uint64_t seed);

/// NAS Parallel Benchmarks CG (MPI version), one of the outer iterations: 25 conjugate-gradient
/// steps, the residual and the norms. `problem` is a class letter S, W, A to E; `tasks` a power of
/// two.
Result<CommMatrix> npb_cg(int tasks, char problem = 'B');

/// NAS Parallel Benchmarks SP (MPI version), one time step: the exchange of faces and the three
/// solves of the multi-partition decomposition. `tasks` is a square.
Result<CommMatrix> npb_sp(int tasks, char problem = 'B');

/// Reads "NAME:ARGUMENTS", as pattern_help() lists them. `seed` drives the random ones.
Result<CommMatrix> parse_pattern(std::string_view text, uint64_t seed);

/// One line a pattern, for --help.
std::string pattern_help();

}  // namespace ibcoll::topology
