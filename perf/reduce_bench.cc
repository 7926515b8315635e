/// reduce_bench: how fast elements are combined, by type and operator, and how far that is from
/// what memory allows: what is read and written at the speed at which memory is copied.

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/execute/reduction.h"
#include "engine/execute/reduction_kernels.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

struct Wanted {
  std::string type = "all", op = "all", kernels = "fastest", small = "128K", large = "32M";
  int64_t budget_ms = 10;
  size_t offset = 0;
  std::string json;
};

/// Two arrays that begin so many bytes behind the beginnings of pages.
class Arrays {
 public:
  Arrays(size_t bytes, size_t offset)
      : bytes_(bytes), offset_(offset), memory_(2 * (bytes + 2 * kPage) + kPage) {}
  std::byte* target() { return page() + offset_; }
  /// Not as far from the target as caches repeat themselves.
  std::byte* source() { return page() + (bytes_ / kPage + 1) * kPage + kPage / 2 + offset_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  std::byte* page() {
    const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kPage - begin % kPage) % kPage;
  }
  size_t bytes_, offset_;
  std::vector<std::byte> memory_;
};

/// Numbers that stay numbers, however often they are combined: 1 and -1, or small integers.
template <class T>
void fill(std::byte* to, size_t bytes, size_t every) {
  for (size_t i = 0; i + sizeof(T) <= bytes; i += every) {
    const T value = i / every % 3 == 0 ? T(-1) : T(1);
    std::memcpy(to + i, &value, sizeof value);
  }
}
void fill(ElementType type, std::byte* to, size_t bytes) {
  const size_t element = element_bytes(type);
  std::memset(to, 0, bytes);
  if (type == ElementType::kFloat || type == ElementType::kFloatComplex ||
      type == ElementType::kFloatInt) {
    fill<float>(to, bytes, element);
  } else if (type == ElementType::kDouble || type == ElementType::kDoubleComplex ||
             type == ElementType::kDoubleInt) {
    fill<double>(to, bytes, element);
  } else if (type == ElementType::kLongDouble || type == ElementType::kLongDoubleComplex ||
             type == ElementType::kLongDoubleInt) {
    fill<long double>(to, bytes, element);
  } else if (type != ElementType::kFloat16 && type != ElementType::kBfloat16) {
    fill<int8_t>(to, bytes, element);
  } else {
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
      const uint16_t one = type == ElementType::kFloat16 ? 0x3c00 : 0x3f80;
      std::memcpy(to + i, &one, sizeof one);
    }
  }
}

/// Nanoseconds that one call of `body` takes, the best of many.
template <class Body>
double best_ns(int64_t budget_ms, size_t bytes, Body&& body) {
  // Long enough to be timed.
  const size_t calls = std::max<size_t>(1, 200'000 / bytes);
  double best = std::numeric_limits<double>::infinity();
  const int64_t end = now_ns() + budget_ms * 1'000'000;
  for (int round = 0; round < 5 || now_ns() < end; ++round) {
    const int64_t begin = now_ns();
    for (size_t i = 0; i < calls; ++i) {
      body();
      asm volatile("" ::: "memory");
    }
    best = std::min(best, static_cast<double>(now_ns() - begin) / static_cast<double>(calls));
  }
  return best;
}

/// Bytes that a copy reads and writes in a nanosecond.
double copy_speed(Arrays& arrays, int64_t budget_ms) {
  std::memset(arrays.source(), 1, arrays.bytes());
  std::memset(arrays.target(), 1, arrays.bytes());
  const double ns = best_ns(budget_ms, arrays.bytes(),
                            [&] { std::memcpy(arrays.target(), arrays.source(), arrays.bytes()); });
  return 2.0 * static_cast<double>(arrays.bytes()) / ns;
}

/// What is asked for, in the order of its numbers.
template <class Enum, class Parse>
Result<std::vector<Enum>> chosen(const std::string& text, int count, Parse&& parse) {
  std::vector<Enum> all;
  if (text == "all") {
    for (int i = 0; i < count; ++i) all.push_back(static_cast<Enum>(i));
    return all;
  }
  for (const std::string_view part : split(text, ',')) {
    IBCOLL_ASSIGN(const Enum one, parse(part));
    all.push_back(one);
  }
  return all;
}

Result<std::vector<const KernelTable*>> chosen_kernels(const std::string& text) {
  std::vector<const KernelTable*> all;
  std::string names = "fastest, all";
  for (const auto* table = usable_kernels(); *table != nullptr; ++table) {
    names += fmt::format(", {}", (*table)->name);
    if (text == "all" || text == (*table)->name || (text == "fastest" && all.empty()))
      all.push_back(*table);
  }
  if (!all.empty()) return all;
  return fail(ErrorCode::kInvalidArgument, "unknown kernels '{}': here there are {}", text, names);
}

struct Selection {
  std::vector<ElementType> types;
  std::vector<Operator> operators;
  std::vector<const KernelTable*> kernels;
  std::vector<Arrays> arrays;  ///< that fit the cache, and that don't
};

Result<Selection> selection_of(const Wanted& wanted) {
  Selection selection;
  IBCOLL_ASSIGN(selection.types,
                chosen<ElementType>(wanted.type, kElementTypes, parse_element_type));
  IBCOLL_ASSIGN(selection.operators, chosen<Operator>(wanted.op, kOperators, parse_operator));
  IBCOLL_ASSIGN(selection.kernels, chosen_kernels(wanted.kernels));
  for (const std::string& text : {wanted.small, wanted.large}) {
    IBCOLL_ASSIGN(const int64_t bytes, parse_size(text));
    constexpr int64_t kLeast = 32, kMost = int64_t{4} << 30;  // a whole number of any elements
    if (bytes < kLeast || bytes > kMost || bytes % kLeast != 0) {
      return fail(ErrorCode::kInvalidArgument, "{} bytes: they must be a multiple of 32 up to 4G",
                  text);
    }
    selection.arrays.emplace_back(static_cast<size_t>(bytes), wanted.offset);
  }
  return selection;
}

Status run(const Wanted& wanted, Selection& selection) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(wanted.json));
  std::vector<double> copies;
  for (Arrays& arrays : selection.arrays)
    copies.push_back(copy_speed(arrays, 10 * wanted.budget_ms));
  Table table({"type", "operator", "kernels", wanted.small + " GB/s", "of the bound",
               wanted.large + " GB/s", "of the bound"});
  table.add_row({"", "(copy)", "", fmt::format("{:.1f}", copies[0]), "",
                 fmt::format("{:.1f}", copies[1]), ""});
  for (const ElementType type : selection.types) {
    for (const Operator op : selection.operators) {
      for (const KernelTable* kernels : selection.kernels) {
        const Combine combine = kernels->of[static_cast<int>(type)][static_cast<int>(op)].combine;
        if (combine == nullptr) continue;
        std::vector<std::string> row = {to_string(type), to_string(op), kernels->name};
        for (size_t i = 0; i < selection.arrays.size(); ++i) {
          Arrays& arrays = selection.arrays[i];
          fill(type, arrays.target(), arrays.bytes());
          fill(type, arrays.source(), arrays.bytes());
          const double ns = best_ns(wanted.budget_ms, arrays.bytes(), [&] {
            combine(arrays.target(), arrays.source(), arrays.bytes(), nullptr);
          });
          // Both are read, and one is written; replace reads one alone, no_op nothing.
          const int moved = op == Operator::kNoOp ? 0 : op == Operator::kReplace ? 2 : 3;
          const double speed = moved * static_cast<double>(arrays.bytes()) / ns;
          row.push_back(fmt::format("{:.1f}", speed));
          row.push_back(fmt::format("{:.2f}", speed / copies[i]));
          json.write({{"type", to_string(type)},
                      {"operator", to_string(op)},
                      {"kernels", kernels->name},
                      {"bytes", arrays.bytes()},
                      {"offset", wanted.offset},
                      {"gigabytes_per_second", speed},
                      {"copy_gigabytes_per_second", copies[i]},
                      {"of_the_bound", speed / copies[i]}});
        }
        table.add_row(std::move(row));
      }
    }
  }
  if (!json.to_stdout()) fmt::print("{}", table.text());
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "How fast elements are combined, and how far that is from the bound: what is read and "
      "written, at the speed at which memory is copied in the same run");
  Wanted wanted;
  app.option("--type", wanted.type, "types of elements, or all").with_default();
  app.option("--operator", wanted.op, "operators, or all that the types have").with_default();
  app.option("--kernels", wanted.kernels, "fastest, all, or portable, avx2 or avx512")
      .with_default();
  app.option("--small", wanted.small, "bytes of an array that stays in the cache").with_default();
  app.option("--large", wanted.large, "bytes of one that does not").with_default();
  app.option("--offset", wanted.offset, "bytes that arrays begin behind an aligned address")
      .with_default()
      .between(0, 2047);
  app.option("--budget", wanted.budget_ms, "milliseconds a figure, of which the best is taken")
      .with_default()
      .between(1, 10'000);
  app.option("--json", wanted.json, "one object a figure into this file, - for standard output");
  app.footer("Example: reduce_bench --type float,float16 --operator sum --kernels all");
  return tools::run_tool(app, argc, argv, [&]() -> Status {
    IBCOLL_ASSIGN(Selection selection, selection_of(wanted));
    return run(wanted, selection);
  });
}
