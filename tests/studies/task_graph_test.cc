/// Task graphs and schedules: readers, writers, generators, the checker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <sstream>

#include "studies/task_graph/formats.h"
#include "studies/task_graph/gantt.h"
#include "studies/task_graph/generators.h"
#include "studies/task_graph/schedulers.h"
#include "tests/studies/scheduled.h"

namespace ibcoll::task_graph {
namespace {

using ibcoll::testing::scheduled;
using ::testing::HasSubstr;
using Kind = Instruction::Kind;

TEST(TaskGraphGenerators, HaveThePapersTasksAndEdges) {
  const TaskGraph a = gauss_jordan(128), b = gauss_jordan_b(128), lu = lu_decomposition(128);
  EXPECT_EQ(a.size(), 1'073'152);
  EXPECT_EQ(a.edges(), 3'161'792);
  EXPECT_EQ(b.size(), 1'073'152);
  EXPECT_EQ(b.edges(), 3'161'920);
  EXPECT_EQ(lu.size(), 699'008);
  EXPECT_EQ(lu.edges(), 2'056'384);
  EXPECT_EQ(gauss_jordan(64).size(), 137'216);
}

TEST(TaskGraphGenerators, RefuseWhatIsNotAGraph) {
  for (const char* wrong :
       {"fft:6", "gauss-jordan:0", "gauss-jordan", "lu:abc", "stencil:5", "in-tree:9:40",
        "random:5:1:1:1:1", "montage:0", "montage", "ligo:3", "cybershake:100000x100000"}) {
    const auto graph = generate(wrong);
    ASSERT_FALSE(graph.has_value()) << wrong;
    EXPECT_EQ(graph.error().code, ErrorCode::kInvalidArgument) << wrong;
  }
}

TEST(TaskGraphGenerators, WorkflowsHaveTheirShapes) {
  const auto ends = [](const TaskGraph& graph) {
    std::pair<int, int> count;
    for (TaskId task = 0; task < graph.size(); ++task) {
      count.first += graph.predecessors(task).empty() ? 1 : 0;
      count.second += graph.successors(task).empty() ? 1 : 0;
    }
    return count;
  };
  // 9 images on a square of 3 by 3 have 12 pairs of neighbours; 6 tasks join all.
  EXPECT_EQ(montage(9, 1).size(), 9 + 12 + 9 + 6);
  EXPECT_EQ(ends(montage(9, 1)), std::pair(9, 1));
  EXPECT_EQ(epigenomics(3, 5, 1).size(), 3 * (1 + 4 * 5 + 1) + 3);
  EXPECT_EQ(ends(epigenomics(3, 5, 1)), std::pair(3, 1));
  EXPECT_EQ(ligo(2, 7, 1).size(), 2 * (4 * 7 + 2));
  EXPECT_EQ(ends(ligo(2, 7, 1)), std::pair(14, 2));
  EXPECT_EQ(cybershake(2, 6, 1).size(), 4 * (1 + 2 * 6) + 2);
  EXPECT_EQ(ends(cybershake(2, 6, 1)), std::pair(4, 2));
  EXPECT_EQ(task_levels(montage(9, 1)).front(), 8);  // fit, join, model, correct, and four more
  const TaskGraph again = montage(20, 5), other = montage(20, 6);
  EXPECT_EQ(again.total_work(), montage(20, 5).total_work());
  EXPECT_NE(again.total_work(), other.total_work());
  EXPECT_EQ(generate("ligo:2x7:3").value().size(), ligo(2, 7, 3).size());
}

TEST(TaskGraph, RefusesCyclesNegativeWeightsAndMissingTasks) {
  const auto message = [](std::vector<Time> weights, const std::vector<Edge>& edges) {
    const auto graph = TaskGraph::create(std::move(weights), edges);
    return graph ? std::string() : graph.error().message;
  };
  EXPECT_THAT(message({1, 1, 1}, {{0, 1}, {1, 2}, {2, 0}}), HasSubstr("cycle"));
  EXPECT_THAT(message({1, -4}, {}), HasSubstr("task 1 has the negative weight -4"));
  EXPECT_THAT(message({1, 1}, {{0, 7}}), HasSubstr("there is no task 7"));
  EXPECT_THAT(message({1}, {{0, 0}}), HasSubstr("itself"));
}

TEST(TaskGraphFormats, ComeBackAsTheyWere) {
  const TaskGraph graph = random_graph(40, 0.2, 50, 3);
  struct {
    Result<TaskGraph> (*read)(std::istream&);
    void (*write)(const TaskGraph&, std::ostream&);
  } formats[] = {{read_stg, write_stg},
                 {read_dot, write_dot},
                 {read_json, write_json},
                 {read_hyperdag, write_hyperdag}};
  for (const auto& format : formats) {
    std::stringstream text;
    format.write(graph, text);
    const auto again = format.read(text);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(again->size(), graph.size());
    for (TaskId task = 0; task < graph.size(); ++task) {
      EXPECT_EQ(again->weight(task), graph.weight(task));
      EXPECT_TRUE(std::ranges::equal(again->predecessors(task), graph.predecessors(task)));
    }
  }
}

TEST(TaskGraphFormats, NameTheLineThatIsWrong) {
  const auto stg = [](const char* text) {
    std::istringstream in(text);
    const auto graph = read_stg(in);
    return graph ? std::string("read") : graph.error().message;
  };
  EXPECT_EQ(stg("2\n0 1 0\n1 5 1 0\n"), "read");
  EXPECT_THAT(stg("3\n0 1 0\n1 5 1 0\n"), HasSubstr("line 3: the file ends after 2 of 3 tasks"));
  EXPECT_THAT(stg("2\n0 1 0\n1 -5 1 0\n"), HasSubstr("line 3"));
  EXPECT_THAT(stg("2\n0 1 0\n1 5 2 0\n"), HasSubstr("line 3: 2 predecessors announced, 1 given"));
  EXPECT_THAT(stg("2\n0 1 1 1\n1 5 1 0\n"), HasSubstr("line 3: the graph has a cycle: 0 -> 1"));
  EXPECT_THAT(stg(""), HasSubstr("empty"));
  std::istringstream dot("digraph g {\n a [weight=3];\n a -> b [label=\"x\"];\n b -> \n}");
  EXPECT_THAT(read_dot(dot).error().message, HasSubstr("line 5: an edge without an end"));
  std::istringstream open("digraph { a -> b;");
  EXPECT_THAT(read_dot(open).error().message, HasSubstr("the file ends"));
}

TEST(TaskGraphFormats, JsonNamesTheWeightOrEdgeThatIsWrong) {
  const auto message = [](const std::string& text) {
    std::istringstream in(text);
    const auto graph = read_json(in);
    return graph ? std::string("read") : graph.error().message;
  };
  EXPECT_EQ(message(R"({"weights": [1, 2], "edges": [[0, 1]]})"), "read");
  EXPECT_THAT(message(R"({"weights": [1, 2], "edges": [[0, 5]]})"),
              HasSubstr("edges[0]: there is no task 5"));
  EXPECT_THAT(message(R"({"weights": [1, 2], "edges": [[0, 18446744073709551615]]})"),
              HasSubstr("edges[0]: there is no task 18446744073709551615"));
  EXPECT_THAT(message(R"({"weights": [1, 2], "edges": [[0, 1], [0]]})"), HasSubstr("edges[1]"));
  EXPECT_THAT(message(R"({"weights": [1, 18446744073709551615], "edges": []})"),
              HasSubstr("weights[1] is not a whole number up to"));
  EXPECT_THAT(message(R"({"weights": [1.5], "edges": []})"), HasSubstr("weights[0]"));
  EXPECT_THAT(message(R"({"weights": [-1], "edges": []})"), HasSubstr("task 0"));
  EXPECT_THAT(message(R"({"weights": [1], "edges": {}})"), HasSubstr("no array \"edges\""));
  EXPECT_THAT(message("{\"weights\": [1"), HasSubstr("is not JSON"));
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  const auto with = [](const std::string& weights) {
    return "{\"weights\": " + weights + ", \"edges\": []}";
  };
  EXPECT_THAT(message(with(nested(400))), HasSubstr("weights[0]"));
  EXPECT_THAT(message(with(nested(600))), HasSubstr("nested more than 500 levels deep"));
  EXPECT_THAT(message(std::string(1'000'000, '[')), HasSubstr("nested more than 500 levels deep"));
  EXPECT_THAT(message(with("[1, \"" + std::string(1000, '[') + "\\\"[\"]")),
              HasSubstr("weights[1]"));
}

TEST(TaskGraphFormats, DotMeansWhatGraphvizReads) {
  const auto read = [](const char* text) {
    std::istringstream in(text);
    auto graph = read_dot(in);
    EXPECT_TRUE(graph.has_value()) << graph.error().message;
    return graph.value_or(TaskGraph::create({}, {}).value());
  };
  const auto needs = [](const TaskGraph& graph, TaskId task) {
    return std::vector<TaskId>(graph.predecessors(task).begin(), graph.predecessors(task).end());
  };
  // Ports belong to nodes, names may be of any alphabet, and quotes hold all but a quote.
  const TaskGraph ports = read("digraph { a:out -> b:in:nw -> c; \"a\" -> c }");
  ASSERT_EQ(ports.size(), 3);
  EXPECT_EQ(needs(ports, 2), (std::vector<TaskId>{0, 1}));
  const TaskGraph letters = read("digraph { ä -> ö; ö -> \"x \\\"y\\\"\"; }");
  ASSERT_EQ(letters.size(), 3);
  EXPECT_EQ(needs(letters, 1), std::vector<TaskId>{0});
  EXPECT_EQ(needs(letters, 2), std::vector<TaskId>{1});
  const TaskGraph escapes = read(R"(digraph { "x\\" -> b; "p\
q" -> b; pq -> "x\\" })");
  EXPECT_EQ(escapes.size(), 3) << "a pair of backslashes ends before the quote, one joins lines";
  const TaskGraph tight = read("digraph { a->b->c-d }");
  ASSERT_EQ(tight.size(), 3);
  // What `node` says holds for the nodes behind it; what edges weigh is of no concern.
  const TaskGraph weights = read(
      "DiGraph \"g\" { a; rankdir=LR; Node [shape=box] [weight=5]; edge [weight=9];\n"
      "b [label=<<b>weight=3]</b>>]; c [weight=7, color=\"red\"]; a -> b -> c [weight=8] }\n");
  ASSERT_EQ(weights.size(), 3);
  EXPECT_EQ(weights.weight(0), 1);
  EXPECT_EQ(weights.weight(1), 5);
  EXPECT_EQ(weights.weight(2), 7);
  EXPECT_EQ(weights.edges(), 2);
}

TEST(TaskGraphFormats, DotThatWouldBeMisreadIsRefused) {
  const auto message = [](const std::string& text) {
    std::istringstream in(text);
    const auto graph = read_dot(in);
    return graph ? std::string("read") : graph.error().message;
  };
  for (const char* text : {"digraph {\n a -> {b c} }", "digraph {\n {a b} -> c }",
                           "digraph {\n subgraph s { a } }", "digraph {\n a -> subgraph { b } }"})
    EXPECT_EQ(message(text), "line 2: subgraphs are not supported") << text;
  EXPECT_EQ(message("digraph { a }\ndigraph { b }"),
            "line 2: 'digraph' behind the end of the graph");
  EXPECT_EQ(message("digraph {\n a + b }"), "line 2: unexpected '+'");
  EXPECT_EQ(message("digraph {\n a--b }"), "line 2: an undirected edge in a digraph");
  EXPECT_EQ(message("digraph {\n a [weight=] }"), "line 2: 'weight' has no value");
  EXPECT_EQ(message("digraph {\n a [weight=1.5] }"),
            "line 2: '1.5' is not a whole number (weight)");
  EXPECT_THAT(message("digraph {\n a [weight=-3] }"), HasSubstr("line 2: weight must be 0"));
  EXPECT_EQ(message("digraph {\n a [weight=3"), "line 2: the attributes are not closed");
  EXPECT_EQ(message("digraph {\n \"a\n }"), "line 2: a quote is not closed");
  EXPECT_EQ(message("digraph {\n a [label=<<b>] }"), "line 2: a '<' is not closed");
  EXPECT_EQ(message("digraph {\n a: }"), "line 2: a ':' without a port");
  EXPECT_EQ(message("graph { a -- b }"), "line 1: expected 'digraph', found 'graph'");
  EXPECT_EQ(message(""), "line 1: expected 'digraph', found ''");
  // Lines inside quotes count, and cycles are told in the names of the file.
  EXPECT_EQ(message("digraph { \"a\nb\" -> c;\n c -> d -> c }"),
            "line 3: the graph has a cycle: 'c' -> 'd' -> 'c'");
  EXPECT_EQ(message("digraph { a;\n b -> b }"), "line 2: task 'b' depends on itself");
}

/// Most memory that this process has had.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST(TaskGraphFormats, ShortFilesThatClaimMuchTakeLittleMemory) {
  const int64_t before = peak_memory();
  std::istringstream nodes("0 1000000000 0\n999999999 5\n"), edges("1000000000 1 1\n999999999\n"),
      pins("1 1 9000000000000000000\n0\n0 1\n0 0\n"), tasks("1000000000\n0 1 0\n"),
      needed("2\n0 1 1000000000 1\n");
  EXPECT_THAT(read_hyperdag(nodes).error().message, HasSubstr("after 1 of 1000000000 nodes"));
  EXPECT_THAT(read_hyperdag(edges).error().message, HasSubstr("after 1 of 1000000000 hyperedges"));
  EXPECT_THAT(read_hyperdag(pins).error().message,
              HasSubstr("after 1 of 9000000000000000000 pins"));
  EXPECT_THAT(read_stg(tasks).error().message, HasSubstr("after 1 of 1000000000 tasks"));
  EXPECT_THAT(read_stg(needed).error().message, HasSubstr("line 2"));
  EXPECT_LT(peak_memory() - before, 64 << 20);
}

TEST(TaskGraphFormats, HyperDagsAreRead) {
  const auto read = [](const char* text) {
    std::istringstream in(text);
    return read_hyperdag(in);
  };
  const auto message = [&](const char* text) {
    const auto graph = read(text);
    return graph ? std::string("read") : graph.error().message;
  };
  // The source of hyperedge 1 is the node that comes first, 2; node 3 has no work of its own.
  const auto graph = read(
      "%%MatrixMarket coordinate pattern general\n% HyperDAG file format v1\n2 4 5 % sizes\n"
      "0\n1 7 % seven bytes\n0 5 1\n2 6\n1 4\n3\n0 0\n1 2\n0 1\n1 3\n1 1\n");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->size(), 4);
  EXPECT_EQ(graph->edges(), 3);
  EXPECT_EQ(graph->weight(2), 6);
  EXPECT_EQ(graph->weight(3), 1);
  EXPECT_TRUE(std::ranges::equal(graph->predecessors(1), std::vector<TaskId>{0, 2}));
  EXPECT_THAT(message(""), HasSubstr("line 1: the file ends before its three numbers"));
  EXPECT_THAT(message("% only comments\n"), HasSubstr("line 1: the file ends before"));
  EXPECT_THAT(message("1 2\n"), HasSubstr("line 1: expected the numbers of hyperedges"));
  EXPECT_THAT(message("1 2 2\n0\n0 1\n"), HasSubstr("line 3: the file ends after 1 of 2 nodes"));
  EXPECT_THAT(message("1 2 2\n0\n0 1\n0 1\n"), HasSubstr("line 4: node 0 comes twice"));
  EXPECT_THAT(message("1 2 2\n0\n0 1\n1 -4\n"), HasSubstr("line 4"));
  EXPECT_THAT(message("1 2 2\n0\n0 1\n1 4\n0 0\n0 2\n"), HasSubstr("line 6"));
  EXPECT_THAT(message("1 2 2\n0\n0 1\n1 4\n0 0\n0\n"),
              HasSubstr("line 6: this is no line of pins"));
  EXPECT_THAT(message("1 2 2\n0\n0 1\n1 4\n0 0\n0 1\n0 1\n"), HasSubstr("line 7: more lines"));
  EXPECT_THAT(message("2 2 4\n0\n1\n0 1\n1 4\n0 0\n0 1\n1 1\n1 0\n"), HasSubstr("cycle"));
  EXPECT_THAT(message("99999999999 1 1\n"), HasSubstr("number of hyperedges"));
  EXPECT_THAT(message("1000000000 1 1\n0\n"), HasSubstr("the file ends after 1 of"));
}

TEST(TaskGraphFormats, WorkflowsAreReadInOldAndNewForm) {
  const auto read = [](const std::string& text) {
    std::istringstream in(text);
    return read_json(in);
  };
  const auto message = [&](const std::string& text) {
    const auto graph = read(text);
    return graph ? std::string("read") : graph.error().message;
  };
  const std::string specification =
      R"({"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
           {"name": "split", "id": "A", "parents": [], "children": ["B", "C"]},
           {"name": "work", "id": "B", "parents": ["A"], "children": []},
           {"name": "work", "id": "C", "parents": ["A"], "children": ["D"]},
           {"name": "join", "id": "D", "parents": ["B"], "children": []}]})";
  const auto now = read(specification + R"(, "execution": {"makespanInSeconds": 9, "tasks": [
      {"id": "D", "runtimeInSeconds": 0.25}, {"id": "A", "runtimeInSeconds": 1},
      {"id": "B", "runtimeInSeconds": 2.5}, {"id": "C", "runtimeInSeconds": 0}]}}})");
  ASSERT_TRUE(now.has_value()) << now.error().message;
  ASSERT_EQ(now->size(), 4);
  EXPECT_EQ(now->edges(), 4);  // B -> D is said by the child, C -> D by the parent
  EXPECT_EQ(now->weight(0), 1000);
  EXPECT_EQ(now->weight(1), 2500);
  EXPECT_EQ(now->weight(2), 0);
  EXPECT_EQ(now->weight(3), 250);
  const auto plain = read(specification + "}}");
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(plain->total_work(), 4);
  const auto old = read(R"({"workflow": {"tasks": [
      {"name": "a", "type": "compute", "runtime": 1.5, "parents": []},
      {"name": "b", "type": "compute", "runtime": 2, "parents": ["a"]}]}})");
  ASSERT_TRUE(old.has_value()) << old.error().message;
  EXPECT_EQ(old->edges(), 1);
  EXPECT_EQ(old->weight(0), 1500);
  EXPECT_THAT(message(specification + R"(, "execution": {"tasks": [
      {"id": "A", "runtimeInSeconds": 1}]}}})"),
              HasSubstr("1 of 4 tasks have a runtime"));
  EXPECT_THAT(message(specification + R"(, "execution": {"tasks": [
      {"id": "X", "runtimeInSeconds": 1}]}}})"),
              HasSubstr("runtimes: there is no task 'X'"));
  EXPECT_THAT(message(specification + R"(, "execution": {"tasks": [5]}}})"),
              HasSubstr("runtimes: one is of no task"));
  EXPECT_THAT(message(specification + R"(, "execution": {"tasks": [
      {"id": "A", "runtimeInSeconds": 1}, {"id": "A", "runtimeInSeconds": 1},
      {"id": "B", "runtimeInSeconds": 1}, {"id": "C", "runtimeInSeconds": 1}]}}})"),
              HasSubstr("task 'A': it has two runtimes"));
  // Two tasks are named "work": by that name neither is meant.
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "A", "name": "work"},
      {"id": "B", "name": "work"}, {"id": "C", "parents": ["work"]}]}})"),
              HasSubstr("task 'C': there are several tasks named 'work'"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "a", "parents": ["b"]}]}})"),
              HasSubstr("task 'a': there is no task 'b'"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "a"}, {"id": "a"}]}})"),
              HasSubstr("two tasks 'a'"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"parents": []}]}})"), HasSubstr("neither id"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "a", "parents": "b"}]}})"),
              HasSubstr("no array"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "a", "runtime": "long"}]}})"),
              HasSubstr("its runtime is no number"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "a", "runtime": -1}]}})"),
              HasSubstr("its runtime is no number"));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [{"id": "a", "parents": ["b"]},
      {"id": "b", "parents": ["a"]}]}})"),
              HasSubstr("the graph has a cycle: 'a' -> 'b' -> 'a'"));
  EXPECT_THAT(message(R"({"workflow": []})"), HasSubstr("no array \"tasks\""));
  EXPECT_THAT(message(R"({"workflow": {"tasks": [3]}})"), HasSubstr("neither id"));
  EXPECT_THAT(message("[]"), HasSubstr("no array"));
}

TEST(TaskGraphFormats, SchedulesComeBackAndTruncatedOnesDoNot) {
  const TaskGraph graph = gauss_jordan(12);
  const TaskSchedule schedule = scheduled("dsh", graph, 3);
  std::stringstream text;
  write_schedule(graph, schedule, text);
  const auto again = read_schedule(graph, text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(check(graph, *again).has_value());
  EXPECT_EQ(makespan(graph, *again), makespan(graph, schedule));
  const std::string whole = text.str();
  std::istringstream cut(whole.substr(0, whole.size() / 2));
  EXPECT_THAT(read_schedule(graph, cut).error().message, HasSubstr("line "));
}

TEST(TaskGraphFormats, SchedulesWhoseTimesWouldNotFitAreRefused) {
  const TaskGraph graph = TaskGraph::create({1, 1}, {{0, 1}}).value();
  const auto message = [&](const std::string& costs, const std::string& more) {
    std::istringstream in("{\"tasks\":2,\"processors\":2," + costs + "\n" + more);
    const auto read = read_schedule(graph, in);
    return read ? std::string("read") : read.error().message;
  };
  const std::string rest = "\"messages\":0,\"instructions\":0}",
                    one = "\"messages\":1,\"instructions\":0}";
  const std::string free = "\"receive_overhead\":0,\"latency\":0,";
  EXPECT_EQ(message("\"send_overhead\":1," + free + "\"per_result\":0," + rest, ""), "read");
  EXPECT_THAT(
      message("\"send_overhead\":4503599627370496," + free + "\"per_result\":0," + rest, ""),
      HasSubstr("line 1: \"send_overhead\" is 4503599627370496: must be 0 to"));
  EXPECT_THAT(
      message("\"send_overhead\":18446744073709551615," + free + "\"per_result\":0," + rest, ""),
      HasSubstr("line 1: \"send_overhead\" is 18446744073709551615"));
  std::string tasks = "0";
  for (int i = 0; i < 5000; ++i) tasks += ",0";
  const std::string send = "{\"message\":0,\"from\":0,\"to\":1,\"tasks\":[" + tasks + "]}\n";
  EXPECT_EQ(message("\"send_overhead\":0," + free + "\"per_result\":1000000," + one, send), "read");
  EXPECT_THAT(message("\"send_overhead\":0," + free + "\"per_result\":1099511627776," + one, send),
              HasSubstr("line 2: a message of 5001 results travels longer than"));
}

/// A schedule with messages to damage.
class DamagedSchedule : public ::testing::Test {
 protected:
  DamagedSchedule() : graph_(gauss_jordan(24)), schedule_(scheduled("sppc", graph_, 4)) {}
  Instruction& first(Kind kind) {
    for (auto& instructions : schedule_.processors) {
      for (Instruction& instruction : instructions) {
        if (instruction.kind == kind) return instruction;
      }
    }
    ADD_FAILURE() << "no such instruction";
    return schedule_.processors[0][0];
  }
  std::string complaint() const {
    const Status status = check(graph_, schedule_);
    return status ? std::string() : status.error().message;
  }
  TaskGraph graph_;
  TaskSchedule schedule_;
};

TEST_F(DamagedSchedule, IsRightBefore) {
  ASSERT_FALSE(schedule_.messages.empty());
  EXPECT_EQ(complaint(), "");
}

TEST_F(DamagedSchedule, ReceiveBeforeArrivalIsRefused) {
  schedule_.logp.latency += 1;
  EXPECT_THAT(complaint(), HasSubstr("before it arrives"));
}

TEST_F(DamagedSchedule, ReceiveThatKeepsTheProcessorTooLongIsRefused) {
  first(Kind::kReceive).start += 1'000'000;
  EXPECT_THAT(complaint(), HasSubstr("the processor is busy until"));
}

TEST_F(DamagedSchedule, MissingResultIsRefused) {
  for (PackedMessage& message : schedule_.messages) {
    --message.count;
    if (!complaint().empty()) break;
    ++message.count;
  }
  EXPECT_THAT(complaint(), HasSubstr("is missing"));
}

TEST_F(DamagedSchedule, SwappedResultsAreRefused) {
  const auto& a = schedule_.messages.front();
  const auto& b = schedule_.messages.back();
  std::swap(schedule_.packed[a.first], schedule_.packed[b.first]);
  EXPECT_THAT(complaint(), HasSubstr("the result of task"));
}

TEST_F(DamagedSchedule, DoubledReceiveIsRefused) {
  for (auto& instructions : schedule_.processors) {
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].kind != Kind::kReceive) continue;
      Instruction again = instructions[i];
      again.start = makespan(graph_, schedule_);
      instructions.push_back(again);
      EXPECT_THAT(complaint(), HasSubstr("received twice"));
      return;
    }
  }
  FAIL() << "no receive";
}

TEST_F(DamagedSchedule, DroppedReceiveSendAndTaskAreRefused) {
  const TaskSchedule whole = schedule_;
  for (const Kind kind : {Kind::kReceive, Kind::kSend, Kind::kRun}) {
    schedule_ = whole;
    for (auto& instructions : schedule_.processors) {
      const auto found = std::find_if(instructions.begin(), instructions.end(),
                                      [&](const Instruction& i) { return i.kind == kind; });
      if (found == instructions.end()) continue;
      instructions.erase(found);
      break;
    }
    EXPECT_NE(complaint(), "");
  }
}

TEST(Check, RefusesCyclesOfFreeMessages) {
  // 0 -> 1 and 2 -> 3; each processor runs its task only after the other's message, at time 0.
  const TaskGraph graph = TaskGraph::create({0, 0}, {}).value();
  TaskSchedule schedule(2);
  const TaskId zero = 0, one = 1;
  schedule.add_message(0, 1, std::span(&zero, 1));
  schedule.add_message(1, 0, std::span(&one, 1));
  schedule.processors[0] = {{0, 1, Kind::kReceive}, {0, 0, Kind::kRun}, {0, 0, Kind::kSend}};
  schedule.processors[1] = {{0, 0, Kind::kReceive}, {0, 1, Kind::kRun}, {0, 1, Kind::kSend}};
  const Status status = check(graph, schedule);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("waits for ever"));
}

TEST(Gantt, DrawsMillionsOfInstructionsSmall) {
  const TaskGraph graph = lu_decomposition(64);
  const TaskSchedule schedule = scheduled("sppc", graph, 8);
  const std::string svg = gantt_svg(graph, schedule, "LU & <64>");
  EXPECT_THAT(svg, HasSubstr("LU &amp; &lt;64&gt;"));
  EXPECT_LT(svg.size(), 1'500'000u);
}

}  // namespace
}  // namespace ibcoll::task_graph
