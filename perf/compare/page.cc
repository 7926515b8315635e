#include "perf/compare/page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "perf/compare/cells.h"
#include "perf/compare/verdict.h"
#include "studies/measure/costs_here.h"

namespace ibcoll::compare {
namespace {

std::string short_us(double us) {
  return us < 10    ? fmt::format("{:.2f}", us)
         : us < 100 ? fmt::format("{:.1f}", us)
                    : fmt::format("{:.0f}", us);
}

/// A member that is a text.
std::optional<std::string> text_of(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// Names and sizes of a machine's caches.
std::string caches_of(const nlohmann::ordered_json& machine) {
  std::string all;
  const auto caches = machine.find("caches");
  for (size_t i = 0; caches != machine.end() && caches->is_array() && i < caches->size(); ++i) {
    const nlohmann::ordered_json& cache = (*caches)[i];
    const auto bytes = cache.is_object() ? cache.find("bytes") : cache.end();
    if (bytes == cache.end() || !bytes->is_number_integer()) continue;
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", text_of(cache, "name").value_or("?"),
                       format_size(bytes->get<int64_t>()));
  }
  return all.empty() ? "-" : all;
}

/// As a text stands in a table: a bar would end the cell.
std::string escaped(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

/// Builds Markdown tables, whose columns stand once for each machine.
class Page {
 public:
  explicit Page(const std::vector<Tables>& machines) : machines_(machines) {}

  std::string text() {
    about_machines();
    for (const bool private_memory : {true, false}) {
      if (collectives(private_memory).empty()) continue;
      text_ +=
          fmt::format("\n## {}\n\n", private_memory ? "Private memory" : "The engine's memory");
      means(private_memory);
      verdicts(private_memory);
      for (const contest_collective one : collectives(private_memory)) cells(private_memory, one);
    }
    return text_;
  }

 private:
  using Column = std::function<std::string(const Tables&)>;
  using Counts = std::function<bool(const Cell&)>;

  bool several() const { return machines_.size() > 1; }
  std::string letter(size_t machine) const {
    return std::string(1, static_cast<char>('A' + machine));
  }
  void head(const std::string& first, const std::vector<std::string>& columns) {
    std::string line = "|---|";
    text_ += fmt::format("| {} |", first);
    for (const std::string& column : columns) {
      for (size_t i = 0; i < machines_.size(); ++i) {
        text_ += several() ? fmt::format(" {}{}{} |", column, column.empty() ? "" : ", ", letter(i))
                           : fmt::format(" {} |", column);
        line += "---|";
      }
    }
    text_ += "\n" + line + "\n";
  }
  void row(const std::string& first, const std::vector<Column>& columns) {
    text_ += fmt::format("| {} |", escaped(first));
    for (const Column& column : columns)
      for (const Tables& one : machines_) text_ += fmt::format(" {} |", escaped(column(one)));
    text_ += "\n";
  }

  void about_machines() {
    if (std::all_of(machines_.begin(), machines_.end(),
                    [](const Tables& one) { return one.machine.empty() && !one.after_barrier; }))
      return;
    head("machine", {""});
    row("processor",
        {[](const Tables& one) { return text_of(one.machine, "processor").value_or("-"); }});
    row("cores that ranks may use",
        {[](const Tables& one) { return one.cores() > 0 ? std::to_string(one.cores()) : "-"; }});
    row("caches", {[](const Tables& one) { return caches_of(one.machine); }});
    row("calls are timed", {[](const Tables& one) {
          return one.after_barrier ? "after a barrier, mean over ranks" : "back to back";
        }});
    costs();
    row("load average before, during, after",
        {of_states([](const State& state) { return std::optional(state.load[0]); })});
    row("processor time of others before, during, after, %",
        {of_states([](const State& state) { return state.others; })});
    row("steal before, during, after, %",
        {of_states([](const State& state) { return state.steal; })});
    row("at worst during", {[](const Tables& one) {
          const State* const during = one.state("during");
          return during != nullptr && during->worst ? part_text(*during->worst) : "-";
        }});
  }

  static Column of_states(const std::function<std::optional<double>(const State&)>& figure) {
    return [figure](const Tables& one) {
      std::string all;
      for (const char* when : {"before", "during", "after"}) {
        const State* const state = one.state(when);
        const auto value = state != nullptr ? figure(*state) : std::nullopt;
        all += fmt::format("{}{}", all.empty() ? "" : ", ",
                           value ? fmt::format("{:.1f}", *value) : "-");
      }
      return all;
    };
  }

  /// The rows that `ib_info --costs` shows, in nanoseconds.
  void costs() {
    for (size_t i = 0; i < kDistances; ++i) {
      if (std::none_of(machines_.begin(), machines_.end(),
                       [&](const Tables& one) { return one.costs && one.costs->pairs[i]; }))
        continue;
      for (const auto& figure : pair_figures())
        row(fmt::format("`{}`, {}: {}", figure.name, to_string(static_cast<Distance>(i)),
                        figure.meaning),
            {[&](const Tables& one) {
              return one.costs && one.costs->pairs[i] ? figure_text(figure, *one.costs->pairs[i])
                                                      : "-";
            }});
    }
    for (const auto& figure : machine_figures())
      row(fmt::format("`{}`: {}", figure.name, figure.meaning),
          {[&](const Tables& one) { return one.costs ? figure_text(figure, *one.costs) : "-"; }});
  }

  std::vector<int> all_ranks() const {
    std::set<int> found;
    for (const Tables& one : machines_)
      for (const Cell& cell : one.cells) found.insert(cell.ranks);
    return {found.begin(), found.end()};
  }

  static std::vector<const Cell*> chosen(const Tables& tables, const Counts& counts) {
    std::vector<const Cell*> found;
    for (const Cell& cell : tables.cells)
      if (counts(cell)) found.push_back(&cell);
    return found;
  }

  static Column mean_of(const Counts& counts) {
    return [counts](const Tables& one) {
      std::vector<double> faster;
      for (const Cell* cell : chosen(one, counts)) faster.push_back(cell->faster.value);
      return faster.empty() ? "-" : fmt::format("{:.2f}x", geometric_mean(faster));
    };
  }

  /// The least of some cells, and where.
  static Column least_of(const Counts& counts) {
    return [counts](const Tables& one) {
      const std::vector<const Cell*> cells = chosen(one, counts);
      const auto least = std::min_element(
          cells.begin(), cells.end(),
          [](const Cell* a, const Cell* b) { return a->faster.value < b->faster.value; });
      return least == cells.end() ? "-"
                                  : fmt::format("{:.2f}x ({} ranks, {})", (*least)->faster.value,
                                                (*least)->ranks, format_size((*least)->bytes));
    };
  }

  static Column slower_of(const Counts& counts) {
    return [counts](const Tables& one) {
      int slower = 0, slower_long = 0;
      for (const Cell* cell : chosen(one, counts)) {
        if (cell->faster.high >= 1) continue;
        ++slower;
        slower_long += is_long(*cell) ? 1 : 0;
      }
      return fmt::format("{} ({})", slower, slower_long);
    };
  }

  static Column least_copying_of(const Counts& counts) {
    return [counts](const Tables& one) {
      double least = HUGE_VAL;
      for (const Cell* cell : chosen(one, counts))
        if (cell->bytes >= kLargeBytes && cell->copying) least = std::min(least, *cell->copying);
      return least == HUGE_VAL ? "-" : fmt::format("{:.0f} %", 100 * least);
    };
  }

  void means(bool private_memory) {
    const std::vector<int> ranks = all_ranks();
    std::vector<std::string> titles;
    for (const int count : ranks) titles.push_back(fmt::format("{} ranks", count));
    titles.insert(titles.end(), {"all", "least, calls of 1 us and more",
                                 "sizes slower in every round (of 1 us and more)",
                                 "least share of copying from 256K"});
    head("collective", titles);
    const auto line = [&](const std::string& name, const Counts& counts) {
      std::vector<Column> columns;
      for (const int count : ranks)
        columns.push_back(
            mean_of([=](const Cell& cell) { return counts(cell) && cell.ranks == count; }));
      columns.push_back(mean_of(counts));
      columns.push_back(least_of([=](const Cell& cell) { return counts(cell) && is_long(cell); }));
      columns.push_back(slower_of(counts));
      columns.push_back(least_copying_of(counts));
      row(name, columns);
    };
    for (const auto collective : collectives(private_memory)) {
      line(contest_name(collective), [=](const Cell& cell) {
        return cell.private_memory == private_memory && cell.collective == collective;
      });
    }
    line("all", [=](const Cell& cell) { return cell.private_memory == private_memory; });
  }

  /// What the limits are about.
  void verdicts(bool private_memory) {
    if (std::none_of(machines_.begin(), machines_.end(),
                     [](const Tables& one) { return one.judged; }))
      return;
    text_ += "\n";
    head("verdict", {""});
    const auto of_verdict = [](const std::function<std::string(const Verdict&)>& text) {
      return [text](const Tables& one) {
        return one.judged ? text(judge(one.cells, one.cores())) : "not judged";
      };
    };
    row("others may have had, % of the processor time", {[](const Tables& one) {
          return one.judged && one.most_load ? fmt::format("{:g}", *one.most_load) : "-";
        }});
    row("cells slower than allowed", {of_verdict([=](const Verdict& verdict) {
          return std::to_string(std::count_if(
              verdict.slow.begin(), verdict.slow.end(),
              [=](const Cell& cell) { return cell.private_memory == private_memory; }));
        })});
    for (const MeanLimit& limit : mean_limits(private_memory)) {
      row(fmt::format("geometric mean, {}: at least {:.2f}x", limit.of, limit.least),
          {of_verdict([=](const Verdict& verdict) {
            for (const Mean& mean : verdict.means) {
              if (mean.private_memory == private_memory && mean.limit.of == limit.of)
                return fmt::format("{:.2f}x{}", mean.faster, mean.fails() ? " !" : "");
            }
            return std::string("-");
          })});
    }
  }

  std::vector<contest_collective> collectives(bool private_memory) const {
    std::set<contest_collective> found;
    for (const Tables& one : machines_)
      for (const Cell& cell : one.cells)
        if (cell.private_memory == private_memory) found.insert(cell.collective);
    return {found.begin(), found.end()};
  }

  void cells(bool private_memory, contest_collective collective) {
    const auto of = [=](const Cell& cell) {
      return cell.private_memory == private_memory && cell.collective == collective;
    };
    std::set<int64_t> sizes;
    for (const Tables& one : machines_)
      for (const Cell* cell : chosen(one, of)) sizes.insert(cell->bytes);
    std::vector<std::string> titles;
    for (const int count : all_ranks()) titles.push_back(fmt::format("{} ranks", count));
    text_ += "\n";
    head(fmt::format("{}: bytes", contest_name(collective)), titles);
    for (const int64_t size : sizes) {
      std::vector<Column> columns;
      for (const int count : all_ranks()) {
        columns.push_back([=](const Tables& one) {
          const auto found = chosen(one, [&](const Cell& cell) {
            return of(cell) && cell.bytes == size && cell.ranks == count;
          });
          return found.empty() ? "-" : cell_text(*found.front(), one.cores());
        });
      }
      row(format_size(size), columns);
    }
  }

  static std::string cell_text(const Cell& cell, int cores) {
    std::string text =
        fmt::format("{} / {} = {:.2f}x ({:.2f} to {:.2f})", short_us(cell.theirs_us()),
                    short_us(cell.ours_us), cell.faster.value, cell.faster.low, cell.faster.high);
    if (cell.again) {
      text += fmt::format(" {} again {:.2f}x ({:.2f} to {:.2f})", mark(true, is_slow(cell, cores)),
                          cell.again->value, cell.again->low, cell.again->high);
    }
    return text;
  }

  const std::vector<Tables>& machines_;
  std::string text_;
};

}  // namespace

std::string page(const std::vector<Tables>& machines) { return Page(machines).text(); }

}  // namespace ibcoll::compare
