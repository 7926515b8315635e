#pragma once
/// Task graphs and schedules as text.

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

/// Standard Task Graph set: a line with the number of tasks n, then n lines (or n + 2 with the
/// set's dummy entry and exit tasks) "id weight number-of-predecessors predecessors...", ids from 0
/// in order; lines that begin with # are comments. Errors name the line.
Result<TaskGraph> read_stg(std::istream& in);
void write_stg(const TaskGraph& graph, std::ostream& out);

/// Graphviz digraph: node statements with an attribute `weight` (if there is none, what `node` says
/// before, or 1) and edges, also in chains a -> b -> c. Tasks are numbered in the order in which
/// the nodes appear. Subgraphs are refused. Errors name the line.
Result<TaskGraph> read_dot(std::istream& in);
void write_dot(const TaskGraph& graph, std::ostream& out);

/// HyperDAG files, version 1 (github.com/Algebraic-Programming/HyperDAG_DB): lines that begin with
/// %, then the numbers of hyperedges, nodes and pins, then a line for each of them: "hyperedge ..",
/// "node [work ..]" (1 if there is none) and "hyperedge node". The first node of a hyperedge is the
/// task whose result the others need. What hyperedges weigh is left out: a message costs the same
/// whatever its size. Errors name the line.
Result<TaskGraph> read_hyperdag(std::istream& in);
void write_hyperdag(const TaskGraph& graph, std::ostream& out);

/// {"weights": [..], "edges": [[from, to], ..]}, or what WfCommons writes (WfFormat, versions 1.1
/// to 1.6), a document with a member "workflow": see graph_of_workflow().
Result<TaskGraph> read_json(std::istream& in);
void write_json(const TaskGraph& graph, std::ostream& out);

/// The graph of a WfFormat document (github.com/wfcommons/WfFormat): tasks of
/// workflow.specification with their parents and children, by id, and the runtimes of
/// workflow.execution in milliseconds; in documents before 1.5 all of it in workflow.tasks. Where
/// no task has a runtime, each weighs 1. Errors name the task.
Result<TaskGraph> graph_of_workflow(const nlohmann::ordered_json& document);

/// A graph from a file by its ending (.stg, .dot, .gv, .json; .hdag and .txt: HyperDAG) or from a
/// generator's description (see generate()). Errors begin with the file's name.
Result<TaskGraph> load_graph(const std::string& file_or_description);
/// Writes a graph in the format its ending says.
Status save_graph(const TaskGraph& graph, const std::string& file);

/// A schedule as one JSON object a line: a head {"tasks", "processors", "send_overhead",
/// "receive_overhead", "latency", "per_result", "messages", "instructions"}, then the messages
/// {"message": id, "from", "to", "tasks": [..]} and instructions {"processor", "at", "run" | "send"
/// | "receive": id} in each processor's order. Reading refuses what isn't of this form, with the
/// line; whether the schedule is right is check()'s to say.
void write_schedule(const TaskGraph& graph, const TaskSchedule& schedule, std::ostream& out);
Result<TaskSchedule> read_schedule(const TaskGraph& graph, std::istream& in);

}  // namespace ibcoll::task_graph
