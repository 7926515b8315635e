#include "studies/task_graph/generators.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <span>

#include "engine/base/units.h"

namespace ibcoll::task_graph {

namespace {

/// Emits the assignments of a matrix code in program order and remembers who wrote each entry last.
class MatrixProgram {
 public:
  MatrixProgram(int rows, int columns, int64_t tasks, int64_t edges,
                std::vector<MatrixStatement>* statements)
      : columns_(columns),
        writer_(static_cast<size_t>(rows) * columns, -1),
        builder_(tasks, edges),
        statements_(statements) {
    if (statements_ != nullptr) statements_->clear();
  }

  /// The task whose result a[row][column] is now; -1: it is still the input.
  TaskId& writer(int row, int column) {
    return writer_[static_cast<size_t>(row) * columns_ + column];
  }
  TaskId assign(MatrixStatement::Kind kind, int row, int column, int step,
                std::initializer_list<TaskId> reads) {
    if (statements_ != nullptr) {
      MatrixStatement statement{kind,
                                static_cast<int16_t>(row),
                                static_cast<int16_t>(column),
                                static_cast<int16_t>(step),
                                {-1, -1, -1}};
      std::copy(reads.begin(), reads.end(), statement.operands.begin());
      statements_->push_back(statement);
    }
    return builder_.add(1, reads);
  }
  TaskGraph finish() { return std::move(builder_).finish(); }

 private:
  int columns_;
  std::vector<TaskId> writer_;
  TaskGraph::Builder builder_;
  std::vector<MatrixStatement>* statements_;
};

}  // namespace

TaskGraph gauss_jordan(int n, std::vector<MatrixStatement>* statements) {
  const int64_t tasks = int64_t{n} * n * (n + 3) / 2;
  MatrixProgram program(n, n + 1, tasks, 3 * tasks, statements);
  for (int k = 0; k < n; ++k) {
    const TaskId pivot = program.writer(k, k);  // the value before this step's division
    for (int j = k; j <= n; ++j)
      program.writer(k, j) =
          program.assign(StatementKind::kDivide, k, j, k, {program.writer(k, j), pivot});
    for (int i = 0; i < n; ++i) {
      if (i == k) continue;
      const TaskId factor = program.writer(i, k);
      for (int j = k; j <= n; ++j)
        program.writer(i, j) = program.assign(StatementKind::kSubtract, i, j, k,
                                              {program.writer(i, j), factor, program.writer(k, j)});
    }
  }
  return program.finish();
}

TaskGraph gauss_jordan_b(int n, std::vector<MatrixStatement>* statements) {
  const int64_t tasks = int64_t{n} * n * (n + 3) / 2;
  MatrixProgram program(n, n + 1, tasks, 3 * tasks, statements);
  for (int k = 0; k < n; ++k) {
    const TaskId p = program.assign(StatementKind::kCopy, k, k, k, {program.writer(k, k)});
    for (int j = k + 1; j <= n; ++j)
      program.writer(k, j) =
          program.assign(StatementKind::kDivide, k, j, k, {program.writer(k, j), p});
    for (int i = 0; i < n; ++i) {
      if (i == k) continue;
      const TaskId q = program.assign(StatementKind::kCopy, i, k, k, {program.writer(i, k)});
      for (int j = k + 1; j <= n; ++j)
        program.writer(i, j) = program.assign(StatementKind::kSubtract, i, j, k,
                                              {program.writer(i, j), q, program.writer(k, j)});
    }
  }
  return program.finish();
}

TaskGraph lu_decomposition(int n, std::vector<MatrixStatement>* statements) {
  const int64_t tasks = (int64_t{n} * n * n - n) / 3;
  MatrixProgram program(n, n, tasks, 3 * tasks, statements);
  for (int k = 0; k + 1 < n; ++k) {
    for (int i = k + 1; i < n; ++i)
      program.writer(i, k) = program.assign(StatementKind::kDivide, i, k, k,
                                            {program.writer(i, k), program.writer(k, k)});
    for (int i = k + 1; i < n; ++i) {
      for (int j = k + 1; j < n; ++j)
        program.writer(i, j) =
            program.assign(StatementKind::kSubtract, i, j, k,
                           {program.writer(i, j), program.writer(i, k), program.writer(k, j)});
    }
  }
  return program.finish();
}

TaskGraph fft(int points) {
  const int stages = std::countr_zero(static_cast<unsigned>(points));
  const int64_t tasks = int64_t{points} * (stages + 1);
  TaskGraph::Builder builder(tasks, 2 * tasks);
  for (int i = 0; i < points; ++i) builder.add(1, {});
  for (int stage = 0; stage < stages; ++stage) {
    const TaskId before = stage * points;
    for (int i = 0; i < points; ++i) builder.add(1, {before + i, before + (i ^ (1 << stage))});
  }
  return std::move(builder).finish();
}

TaskGraph stencil_sweep(int rows, int columns) {
  const int64_t tasks = int64_t{rows} * columns;
  TaskGraph::Builder builder(tasks, 2 * tasks);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j)
      builder.add(1, {i > 0 ? (i - 1) * columns + j : TaskId{-1},
                      j > 0 ? i * columns + j - 1 : TaskId{-1}});
  }
  return std::move(builder).finish();
}

namespace {

/// A whole number in [low, high], the same on every platform (std's distributions are not).
int64_t uniform(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

}  // namespace

TaskGraph random_layered(int layers, int width, int degree, Time max_weight, uint64_t seed) {
  std::mt19937_64 random(seed);
  TaskGraph::Builder builder(int64_t{layers} * width, int64_t{layers} * width * degree);
  std::vector<TaskId> needed;
  for (int layer = 0; layer < layers; ++layer) {
    for (int i = 0; i < width; ++i) {
      needed.clear();
      if (layer > 0) {
        const int64_t count = uniform(random, 1, degree);
        for (int64_t j = 0; j < count; ++j)
          needed.push_back(
              static_cast<TaskId>((layer - 1) * width + uniform(random, 0, width - 1)));
      }
      builder.add(uniform(random, 1, max_weight), needed);
    }
  }
  return std::move(builder).finish();
}

TaskGraph random_graph(int tasks, double density, Time max_weight, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto threshold = static_cast<uint64_t>(density * 1'000'000);
  TaskGraph::Builder builder(tasks, tasks);
  std::vector<TaskId> needed;
  for (int i = 0; i < tasks; ++i) {
    needed.clear();
    for (int j = 0; j < i; ++j) {
      if (random() % 1'000'000 < threshold) needed.push_back(j);
    }
    builder.add(uniform(random, 1, max_weight), needed);
  }
  return std::move(builder).finish();
}

namespace {

/// Number of tasks in the levels of a complete tree above level `depth`.
int64_t tree_size(int arity, int depth) {
  int64_t size = 0, level = 1;
  for (int i = 0; i <= depth; ++i, level *= arity) size += level;
  return size;
}

}  // namespace

TaskGraph reduction_tree(int arity, int depth) {
  const int64_t tasks = tree_size(arity, depth);
  TaskGraph::Builder builder(tasks, tasks);
  // Task t is node tasks-1-t of the tree numbered from the root, so children come first.
  std::vector<TaskId> children;
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t node = tasks - 1 - task;
    children.clear();
    for (int i = 1; i <= arity; ++i) {
      const int64_t child = node * arity + i;
      if (child < tasks) children.push_back(static_cast<TaskId>(tasks - 1 - child));
    }
    builder.add(1, children);
  }
  return std::move(builder).finish();
}

TaskGraph broadcast_tree(int arity, int depth) {
  const int64_t tasks = tree_size(arity, depth);
  TaskGraph::Builder builder(tasks, tasks);
  for (int64_t node = 0; node < tasks; ++node)
    builder.add(1, {node == 0 ? TaskId{-1} : static_cast<TaskId>((node - 1) / arity)});
  return std::move(builder).finish();
}

namespace {

constexpr int64_t kMaxGeneratedTasks = 100'000'000;

struct Parameter {
  const char* name;
  int64_t low;
  int64_t high;
  int64_t preset;  ///< -1: must be given
};

struct Generator {
  const char* name;
  const char* usage;
  char first_separator;  ///< between the first two parameters
  std::vector<Parameter> parameters;
  /// Number of tasks, to refuse what wouldn't fit before building it.
  std::function<double(std::span<const int64_t>)> tasks;
  std::function<TaskGraph(std::span<const int64_t>)> build;
};

double geometric_size(std::span<const int64_t> p) {
  double size = 0, level = 1;
  for (int64_t i = 0; i <= p[1]; ++i, level *= static_cast<double>(p[0])) size += level;
  return size;
}

const std::vector<Generator>& generators() {
  using Values = std::span<const int64_t>;
  static const auto kMatrixTasks = [](Values p) {
    const double n = static_cast<double>(p[0]);
    return n * n * (n + 3) / 2;
  };
  static const std::vector<Generator> all = {
      {"gauss-jordan",
       "gauss-jordan:N  reading A, N x (N+1)",
       ':',
       {{"N", 1, 512, -1}},
       kMatrixTasks,
       [](Values p) { return gauss_jordan(static_cast<int>(p[0])); }},
      {"gauss-jordan-b",
       "gauss-jordan-b:N  reading B",
       ':',
       {{"N", 1, 512, -1}},
       kMatrixTasks,
       [](Values p) { return gauss_jordan_b(static_cast<int>(p[0])); }},
      {"lu",
       "lu:N",
       ':',
       {{"N", 2, 512, -1}},
       kMatrixTasks,
       [](Values p) { return lu_decomposition(static_cast<int>(p[0])); }},
      {"fft",
       "fft:POINTS  a power of two",
       ':',
       {{"POINTS", 1, 1 << 21, -1}},
       [](Values p) { return static_cast<double>(p[0]) * 22; },
       [](Values p) { return fft(static_cast<int>(p[0])); }},
      {"stencil",
       "stencil:ROWSxCOLUMNS",
       'x',
       {{"ROWS", 1, 100'000, -1}, {"COLUMNS", 1, 100'000, -1}},
       [](Values p) { return static_cast<double>(p[0]) * static_cast<double>(p[1]); },
       [](Values p) { return stencil_sweep(static_cast<int>(p[0]), static_cast<int>(p[1])); }},
      {"layered",
       "layered:LAYERSxWIDTH[:DEGREE[:MAX_WEIGHT[:SEED]]]",
       'x',
       {{"LAYERS", 1, 1'000'000, -1},
        {"WIDTH", 1, 1'000'000, -1},
        {"DEGREE", 1, 64, 3},
        {"MAX_WEIGHT", 1, 1'000'000, 100},
        {"SEED", 0, INT64_MAX, 1}},
       [](Values p) { return static_cast<double>(p[0]) * static_cast<double>(p[1]); },
       [](Values p) {
         return random_layered(static_cast<int>(p[0]), static_cast<int>(p[1]),
                               static_cast<int>(p[2]), p[3], static_cast<uint64_t>(p[4]));
       }},
      {"random",
       "random:TASKS[:PERCENT[:MAX_WEIGHT[:SEED]]]",
       ':',
       {{"TASKS", 1, 20'000, -1},
        {"PERCENT", 0, 100, 10},
        {"MAX_WEIGHT", 1, 1'000'000, 100},
        {"SEED", 0, INT64_MAX, 1}},
       [](Values p) { return static_cast<double>(p[0]); },
       [](Values p) {
         return random_graph(static_cast<int>(p[0]), static_cast<double>(p[1]) / 100, p[2],
                             static_cast<uint64_t>(p[3]));
       }},
      {"in-tree",
       "in-tree:ARITY:DEPTH  results flow to the root",
       ':',
       {{"ARITY", 1, 1000, -1}, {"DEPTH", 0, 1'000'000, -1}},
       geometric_size,
       [](Values p) { return reduction_tree(static_cast<int>(p[0]), static_cast<int>(p[1])); }},
      {"out-tree",
       "out-tree:ARITY:DEPTH  results flow from the root",
       ':',
       {{"ARITY", 1, 1000, -1}, {"DEPTH", 0, 1'000'000, -1}},
       geometric_size,
       [](Values p) { return broadcast_tree(static_cast<int>(p[0]), static_cast<int>(p[1])); }},
      {"montage",
       "montage:IMAGES[:SEED]",
       ':',
       {{"IMAGES", 1, 1'000'000, -1}, {"SEED", 0, INT64_MAX, 1}},
       [](Values p) { return static_cast<double>(p[0]) * 4 + 6; },
       [](Values p) { return montage(static_cast<int>(p[0]), static_cast<uint64_t>(p[1])); }},
      {"epigenomics",
       "epigenomics:LANESxPIECES[:SEED]",
       'x',
       {{"LANES", 1, 100'000, -1}, {"PIECES", 1, 100'000, -1}, {"SEED", 0, INT64_MAX, 1}},
       [](Values p) { return static_cast<double>(p[0]) * (4 * static_cast<double>(p[1]) + 2); },
       [](Values p) {
         return epigenomics(static_cast<int>(p[0]), static_cast<int>(p[1]),
                            static_cast<uint64_t>(p[2]));
       }},
      {"ligo",
       "ligo:GROUPSxSEGMENTS[:SEED]",
       'x',
       {{"GROUPS", 1, 100'000, -1}, {"SEGMENTS", 1, 100'000, -1}, {"SEED", 0, INT64_MAX, 1}},
       [](Values p) { return static_cast<double>(p[0]) * (4 * static_cast<double>(p[1]) + 2); },
       [](Values p) {
         return ligo(static_cast<int>(p[0]), static_cast<int>(p[1]), static_cast<uint64_t>(p[2]));
       }},
      {"cybershake",
       "cybershake:SITESxVARIATIONS[:SEED]",
       'x',
       {{"SITES", 1, 100'000, -1}, {"VARIATIONS", 1, 100'000, -1}, {"SEED", 0, INT64_MAX, 1}},
       [](Values p) { return static_cast<double>(p[0]) * (4 * static_cast<double>(p[1]) + 2); },
       [](Values p) {
         return cybershake(static_cast<int>(p[0]), static_cast<int>(p[1]),
                           static_cast<uint64_t>(p[2]));
       }},
  };
  return all;
}

}  // namespace

Result<TaskGraph> generate(std::string_view description) {
  const size_t colon = description.find(':');
  const std::string_view name = description.substr(0, colon);
  for (const Generator& generator : generators()) {
    if (generator.name != name) continue;
    std::string rest(colon == std::string_view::npos ? "" : description.substr(colon + 1));
    if (generator.first_separator == 'x') {
      const size_t cross = rest.find('x');
      if (cross != std::string::npos) rest[cross] = ':';
    }
    const std::vector<std::string_view> texts = split(rest, ':');
    if (texts.size() > generator.parameters.size())
      return fail(ErrorCode::kInvalidArgument, "graph '{}': too many parameters; usage: {}",
                  description, generator.usage);
    std::vector<int64_t> values;
    for (size_t i = 0; i < generator.parameters.size(); ++i) {
      const Parameter& parameter = generator.parameters[i];
      if (i < texts.size()) {
        IBCOLL_ASSIGN(const int64_t value,
                      parse_integer(texts[i], parameter.low, parameter.high, parameter.name));
        values.push_back(value);
      } else if (parameter.preset >= 0) {
        values.push_back(parameter.preset);
      } else {
        return fail(ErrorCode::kInvalidArgument, "graph '{}': {} is missing; usage: {}",
                    description, parameter.name, generator.usage);
      }
    }
    if (name == "fft" && !std::has_single_bit(static_cast<uint64_t>(values[0])))
      return fail(ErrorCode::kInvalidArgument, "graph '{}': {} points: must be a power of two",
                  description, values[0]);
    if (generator.tasks(values) > static_cast<double>(kMaxGeneratedTasks))
      return fail(ErrorCode::kInvalidArgument, "graph '{}': more than {} tasks", description,
                  kMaxGeneratedTasks);
    return generator.build(values);
  }
  return fail(ErrorCode::kUnsupported, "no generator named '{}'", name);
}

std::string generator_help() {
  std::string text;
  for (const Generator& generator : generators()) text += fmt::format("  {}\n", generator.usage);
  return text;
}

}  // namespace ibcoll::task_graph
