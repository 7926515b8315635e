#pragma once
/// The schedulers there are: SPPC, its improved variant, and the peers it is compared with. All are
/// deterministic, and all answer with a schedule whose messages and overheads are explicit, so that
/// check(), replay() and the runtime treat them alike.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "studies/task_graph/cluster_graph.h"
#include "studies/task_graph/schedule.h"

namespace ibcoll::task_graph {

struct SchedulerOptions {
  /// Called now and then with the name of a stage, the work done and all of it.
  std::function<void(const char* stage, int64_t done, int64_t all)> progress;
  /// dsh and ecpfd keep a time for every task on every processor: at most so many.
  int64_t max_copies = 40'000'000;
  /// How many candidate schedules `sppc+` may look at when it improves those of small graphs,
  /// as decoded tasks.
  int64_t search_effort = 20'000'000;
};

struct Scheduler {
  std::string_view name;
  std::string_view summary;
  Result<TaskSchedule> (*run)(const TaskGraph& graph, const LogP& logp, int processors,
                              const SchedulerOptions& options);
};

std::span<const Scheduler> schedulers();
/// The error lists the names there are.
Result<const Scheduler*> find_scheduler(std::string_view name);

/// Refuses P < 1 or over 4096 and negative or huge LogP parameters, then runs the scheduler.
Result<TaskSchedule> schedule(const Scheduler& scheduler, const TaskGraph& graph, const LogP& logp,
                              int processors, const SchedulerOptions& options = {});

/// All tasks on processor 0.
Result<TaskSchedule> schedule_serial(const TaskGraph&, const LogP&, int, const SchedulerOptions&);

/// SPPC as the paper has it.
Result<TaskSchedule> schedule_sppc(const TaskGraph&, const LogP&, int, const SchedulerOptions&);

/// SPPC with groups made by load (see group_by_load) instead of affinity.
Result<TaskSchedule> schedule_sppc_balanced(const TaskGraph&, const LogP&, int,
                                            const SchedulerOptions&);

/// The best of everything here on this input (above 200 000 tasks without ecpfd), improved by
/// search where the graph is small. Where messages cost nothing and a schedule is as short as
/// shortest_possible(), nothing else is tried.
Result<TaskSchedule> schedule_sppc_plus(const TaskGraph&, const LogP&, int,
                                        const SchedulerOptions&);

/// Bulk-synchronous: clusters as SPPC's phase 1, LDSH in each layer, all-to-alls between; on the
/// number of processors where that is shortest (of 1 to 16, then steps of an eighth, up to P).
Result<TaskSchedule> schedule_bcsh(const TaskGraph&, const LogP&, int, const SchedulerOptions&);
/// Bulk-synchronous with the clusters, groups and places of sppc or sppc-balanced.
Result<TaskSchedule> schedule_bcsh_grouped(const TaskGraph&, const LogP&, int,
                                           const SchedulerOptions&);
Result<TaskSchedule> schedule_bcsh_balanced(const TaskGraph&, const LogP&, int,
                                            const SchedulerOptions&);

/// Classic list schedulers. They plan with a delay of os + L + or between processors and no
/// overhead; the schedule returned has one message for each result and receiver, replayed with
/// overheads. HEFT and CPOP: Topcuoglu, Hariri, Wu 2002. PEFT: Arabnejad, Barbosa 2014. ETF: Hwang,
/// Chow, Anger, Lee 1989. DSH: Kruatrachue, Lewis 1988. ECPFD: Ahmad, Kwok 1998 (ecpfd.h).
Result<TaskSchedule> schedule_heft(const TaskGraph&, const LogP&, int, const SchedulerOptions&);
Result<TaskSchedule> schedule_cpop(const TaskGraph&, const LogP&, int, const SchedulerOptions&);
Result<TaskSchedule> schedule_peft(const TaskGraph&, const LogP&, int, const SchedulerOptions&);
Result<TaskSchedule> schedule_etf(const TaskGraph&, const LogP&, int, const SchedulerOptions&);
Result<TaskSchedule> schedule_dsh(const TaskGraph&, const LogP&, int, const SchedulerOptions&);
Result<TaskSchedule> schedule_ecpfd(const TaskGraph&, const LogP&, int, const SchedulerOptions&);

/// The optimum by exhaustive search; graphs of at most 10 tasks on at most 4 processors. Fails
/// (deadline) when the search is too long.
Result<TaskSchedule> schedule_optimal(const TaskGraph&, const LogP&, int, const SchedulerOptions&);

}  // namespace ibcoll::task_graph
