#include "studies/mapping/tabu_loops.h"

#include <cstring>
#include <limits>

namespace ibcoll::topology {
namespace {

template <int kWide>
struct Vectors {
  using Floats [[gnu::vector_size(kWide * sizeof(float))]] = float;
  using Ints [[gnu::vector_size(kWide * sizeof(int))]] = int;
};

template <int kWide>
[[gnu::always_inline]] inline void add_outer_products_by(const OuterProducts& of, float* products,
                                                         float* changes) {
  using Floats = typename Vectors<kWide>::Floats;
  Floats flow, distance, entry;
  for (int u = 0; u < of.rows; ++u, products += of.stride, changes += of.stride) {
    const float flow_u = of.flow_gap[u], distance_u = of.distance_gap[u];
    for (int v = 0; v < of.stride; v += kWide) {
      std::memcpy(&distance, of.distance_gap + v, sizeof distance);
      std::memcpy(&entry, products + v, sizeof entry);
      entry += flow_u * distance;
      std::memcpy(products + v, &entry, sizeof entry);
    }
    for (int v = (u + 1) / kWide * kWide; v < of.stride; v += kWide) {
      std::memcpy(&flow, of.flow_gap + v, sizeof flow);
      std::memcpy(&distance, of.distance_gap + v, sizeof distance);
      std::memcpy(&entry, changes + v, sizeof entry);
      entry -= (flow_u - flow) * (distance_u - distance);
      std::memcpy(changes + v, &entry, sizeof entry);
    }
  }
}

template <int kWide>
[[gnu::always_inline]] inline FoundChange least_change_by(const ChangesToSearch& in) {
  using Floats = typename Vectors<kWide>::Floats;
  using Ints = typename Vectors<kWide>::Ints;
  // Each lane keeps its least change and the row that it is in.
  Floats least = Floats{} + std::numeric_limits<float>::infinity(), change;
  Ints row = Ints{} - 1, until;
  const float* changes = in.changes;
  const int* forbidden_until = in.forbidden_until;
  for (int u = 0; u < in.rows; ++u, changes += in.stride, forbidden_until += in.stride) {
    for (int v = (u + 1) / kWide * kWide; v < in.stride; v += kWide) {
      std::memcpy(&change, changes + v, sizeof change);
      std::memcpy(&until, forbidden_until + v, sizeof until);
      const Ints better = ((until <= in.now) | (change < in.always_below)) & (change < least);
      least = better ? change : least;
      row = better ? Ints{} + u : row;
    }
  }
  int lane = 0;
  for (int other = 1; other < kWide; ++other) {
    if (least[other] < least[lane]) lane = other;
  }
  FoundChange found{row[lane], -1};
  if (found.u < 0) return found;
  const size_t begin = static_cast<size_t>(found.u) * in.stride;
  for (int v = (found.u + 1) / kWide * kWide + lane; found.v < 0; v += kWide) {
    const float value = in.changes[begin + v];
    const bool may = in.forbidden_until[begin + v] <= in.now || value < in.always_below;
    if (may && value == least[lane]) found.v = v;
  }
  return found;
}

constexpr int kPortable = 4;

#ifdef __x86_64__
bool has_avx2() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
  }();
  return has;
}
[[gnu::target("avx2")]] void add_outer_products_avx2(const OuterProducts& of, float* products,
                                                     float* changes) {
  add_outer_products_by<kTabuLanes>(of, products, changes);
}
[[gnu::target("avx2")]] FoundChange least_change_avx2(const ChangesToSearch& in) {
  return least_change_by<kTabuLanes>(in);
}
#endif

}  // namespace

void add_outer_products(const OuterProducts& of, float* products, float* changes) {
#ifdef __x86_64__
  if (has_avx2()) return add_outer_products_avx2(of, products, changes);
#endif
  add_outer_products_by<kPortable>(of, products, changes);
}

FoundChange least_change(const ChangesToSearch& in) {
#ifdef __x86_64__
  if (has_avx2()) return least_change_avx2(in);
#endif
  return least_change_by<kPortable>(in);
}

}  // namespace ibcoll::topology
