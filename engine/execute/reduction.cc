#include "engine/execute/reduction.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <complex>
#include <vector>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "engine/execute/reduction_kernels.h"

namespace ibcoll {
namespace {

constexpr std::array<const char*, kElementTypes + 1> kTypeNames = {"int8",
                                                                   "uint8",
                                                                   "int16",
                                                                   "uint16",
                                                                   "int32",
                                                                   "uint32",
                                                                   "int64",
                                                                   "uint64",
                                                                   "float",
                                                                   "double",
                                                                   "long_double",
                                                                   "float_complex",
                                                                   "double_complex",
                                                                   "long_double_complex",
                                                                   "bool",
                                                                   "byte",
                                                                   "float16",
                                                                   "bfloat16",
                                                                   "float_int",
                                                                   "double_int",
                                                                   "long_int",
                                                                   "int_int",
                                                                   "short_int",
                                                                   "long_double_int",
                                                                   "own"};
constexpr std::array<const char*, kOperators + 1> kOperatorNames = {
    "sum", "product", "min",    "max",    "band",    "bor",   "bxor", "land",
    "lor", "lxor",    "minloc", "maxloc", "replace", "no_op", "own"};

/// As C lays it out.
template <class T>
constexpr uint32_t pair_bytes() {
  struct Pair {
    T value;
    int index;
  };
  return sizeof(Pair);
}

constexpr std::array<uint32_t, kElementTypes> kTypeBytes = {1,
                                                            1,
                                                            2,
                                                            2,
                                                            4,
                                                            4,
                                                            8,
                                                            8,
                                                            sizeof(float),
                                                            sizeof(double),
                                                            sizeof(long double),
                                                            sizeof(std::complex<float>),
                                                            sizeof(std::complex<double>),
                                                            sizeof(std::complex<long double>),
                                                            sizeof(bool),
                                                            1,
                                                            2,
                                                            2,
                                                            pair_bytes<float>(),
                                                            pair_bytes<double>(),
                                                            pair_bytes<long>(),
                                                            pair_bytes<int>(),
                                                            pair_bytes<short>(),
                                                            pair_bytes<long double>()};

#ifdef __x86_64__
/// Not every compiler's __builtin_cpu_supports knows it.
bool has_f16c() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

const KernelTable& kernels() {
  static const KernelTable& fastest = **usable_kernels();
  return fastest;
}

/// All operators of a type, for people.
std::string operators_of(size_t type) {
  std::vector<const char*> names;
  for (size_t op = 0; op < kOperators; ++op) {
    if (kernels().of[type][op].combine != nullptr) names.push_back(kOperatorNames[op]);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// `count`: of those that people may ask for.
template <class Enum, size_t kNames>
Result<Enum> parse(const char* what, const std::array<const char*, kNames>& names, size_t count,
                   std::string_view text) {
  const auto* const end = names.begin() + count;
  const auto* const found = std::find(names.begin(), end, text);
  if (found != end) return static_cast<Enum>(found - names.begin());
  return fail(ErrorCode::kInvalidArgument, "unknown {} '{}': one of {}", what, text,
              fmt::join(names.begin(), end, ", "));
}

}  // namespace

const KernelTable* const* usable_kernels() {
  static const auto all = [] {
    std::array<const KernelTable*, 4> usable{};
    size_t count = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && has_f16c();
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      usable[count++] = &kAvx512Kernels;
    if (avx2) usable[count++] = &kAvx2Kernels;
#endif
    usable[count] = &kPortableKernels;
    return usable;
  }();
  return all.data();
}

Result<Reduction> find_reduction(ElementType type, Operator op) {
  const auto t = static_cast<unsigned>(type), o = static_cast<unsigned>(op);
  if (type == ElementType::kOwn) {
    return fail(
        ErrorCode::kInvalidArgument,
        "operator {} is not for elements of the program's own, which take its own operators "
        "(ibcoll_operator_create)",
        to_string(op));
  }
  if (t >= kElementTypes || o >= kOperators) {
    return fail(ErrorCode::kInvalidArgument, "no element type {} or operator {}", t, o);
  }
  const ReductionKernels& found = kernels().of[t][o];
  if (found.combine == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "operator {} is not for elements of type {}, which take {}", to_string(op),
                to_string(type), operators_of(t));
  }
  Reduction reduction;
  reduction.combine = found.combine;
  reduction.combine_reversed = found.combine_reversed;
  reduction.commutes = op != Operator::kReplace && op != Operator::kNoOp;
  reduction.element_bytes = kTypeBytes[t];
  reduction.meaning = Reduction::meaning_of(type, op, kTypeBytes[t]);
  return reduction;
}

bool has_operator(ElementType type, Operator op) {
  return kernels().of[static_cast<size_t>(type)][static_cast<size_t>(op)].combine != nullptr;
}

uint32_t element_bytes(ElementType type) {
  return type < ElementType::kOwn ? kTypeBytes[static_cast<size_t>(type)] : 0;
}

const char* to_string(ElementType type) { return kTypeNames[static_cast<size_t>(type)]; }
const char* to_string(Operator op) { return kOperatorNames[static_cast<size_t>(op)]; }

Result<ElementType> parse_element_type(std::string_view text) {
  return parse<ElementType>("element type", kTypeNames, kElementTypes, text);
}

Result<Operator> parse_operator(std::string_view text) {
  return parse<Operator>("operator", kOperatorNames, kOperators, text);
}

}  // namespace ibcoll
