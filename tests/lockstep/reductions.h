#pragma once
/// What reductions combine and what comes of it, element by element, as docs/api.md says it.

#include <cstddef>
#include <cstdint>

#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// Bytes of an element of a built-in type; 0 for others.
size_t type_bytes(ibcoll_type type);
/// Whether a type has that operator.
bool has_operator(ibcoll_type type, ibcoll_operator op);

/// What one rank gives: `elements` from number `from` on. Their values are such that results are
/// exact, in whatever order they come about.
void write_elements(const Program& program, const CallSpec& spec, int ranks, uint64_t base,
                    size_t from, size_t elements, std::byte* to);
/// left[i] = left[i] op right[i].
void combine(const Program& program, const CallSpec& spec, std::byte* left, const std::byte* right,
             size_t elements);
/// Where elements differ in bytes that mean nothing (between a value and its index, the sign of a
/// zero of a complex product), gives `expected` those of `actual`.
void forgive(const CallSpec& spec, std::byte* expected, const std::byte* actual, size_t elements);

}  // namespace ibcoll::lockstep
