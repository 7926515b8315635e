#pragma once
/// The `IBCOLL_*` environment variables: one row each. Everything that reads, checks, prints or
/// documents them goes by this table; docs/environment.md is made from it (`./run docs`).

#include <cstdint>
#include <string_view>

namespace ibcoll {

enum class VariableType { kBool, kInteger, kSize, kDuration, kString, kChoice };

/// What a variable is about; the documentation has a section for each.
enum class VariableGroup {
  kStart,
  kTransports,
  kVerbs,
  kUcx,
  kAlgorithms,
  kThreads,
  kMulticasts,
  kFailures,
  kMpi,
  kDebugging,
};

struct Variable {
  VariableGroup group;
  std::string_view name;
  VariableType type;
  std::string_view default_value;  ///< as a user would write it
  std::string_view help;           ///< some sentences of Markdown; docs/NAME.md becomes a link
  std::string_view choices = {};   ///< of a kChoice: the allowed values, separated by commas
  bool or_network = false;         ///< a kChoice: or the name of a transport between servers
  int64_t low = 0;                 ///< of a kInteger and kSize: the least allowed value
  int64_t high = INT64_MAX;        ///< and the largest
};

struct VariableSection {
  VariableGroup group;
  std::string_view heading;
  std::string_view about;  ///< like Variable::help
};

/// In the order of the documentation.
inline constexpr VariableSection kVariableSections[] = {
    {.group = VariableGroup::kStart,
     .heading = "Start and layout",
     .about =
         "How processes become the ranks of a job, and how the ranks are spread over servers."},
    {.group = VariableGroup::kTransports,
     .heading = "Transports",
     .about = "What carries data between servers."},
    {.group = VariableGroup::kVerbs,
     .heading = "InfiniBand and RoCE",
     .about = "For the transport `verbs`."},
    {.group = VariableGroup::kUcx,
     .heading = "UCX",
     .about = "For the transport `ucx`. UCX reads variables of its own as well (docs/ucx.md)."},
    {.group = VariableGroup::kAlgorithms,
     .heading = "Algorithms",
     .about = "What guides the engine when it chooses the algorithm of a call."},
    {.group = VariableGroup::kThreads,
     .heading = "Threads and progress",
     .about = "For programs that do not make these choices themselves."},
    {.group = VariableGroup::kMulticasts,
     .heading = "Multicasts",
     .about = "Limits on messages to sets of ranks, and what messages cost."},
    {.group = VariableGroup::kFailures,
     .heading = "Failures",
     .about = "How long ranks wait for each other."},
    {.group = VariableGroup::kMpi,
     .heading = "MPI programs",
     .about = "For libibcoll_mpi.so, the library to preload into MPI programs (docs/mpi.md)."},
    {.group = VariableGroup::kDebugging,
     .heading = "Logging and debugging",
     .about = "What ibcoll writes, and what helps to find errors."},
};

inline constexpr int64_t kMaxConfiguredServers = 1 << 20;

/// Those of a group stand together, in the order of the sections.
inline constexpr Variable kVariables[] = {
    {.group = VariableGroup::kStart,
     .name = "IBCOLL_BOOTSTRAP",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "How a process joins the job in which it was started: `pmix` (Open MPI's mpirun, "
             "srun --mpi=pmix), `pmi` (mpiexec of MPICH and MVAPICH, srun --mpi=pmi2), or "
             "`alone` (it joins none, and is a job of its own). `auto` uses what the launcher "
             "offers.",
     .choices = "auto,pmix,pmi,alone"},
    {.group = VariableGroup::kStart,
     .name = "IBCOLL_BIND",
     .type = VariableType::kChoice,
     .default_value = "core",
     .help = "`none` leaves the choice of cores to the system. With `core`, `ibcoll_launch` "
             "binds ranks to cores if the caller asks for it (`bind`), and tools bind them "
             "unless they are called with `--no-bind`.",
     .choices = "none,core"},
    {.group = VariableGroup::kStart,
     .name = "IBCOLL_SERVERS",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Splits the ranks of one machine into this many emulated servers of equal size, "
             "which exchange data only over the network. 0: each machine is one server.",
     .high = kMaxConfiguredServers},
    {.group = VariableGroup::kStart,
     .name = "IBCOLL_LAYOUT",
     .type = VariableType::kString,
     .default_value = "",
     .help = "Splits the ranks of one machine into emulated servers with these numbers of ranks: "
             "`3,1,2`, or `24x8` for 24 servers of 8. Takes precedence over `IBCOLL_SERVERS`. "
             "Empty: not set."},
    {.group = VariableGroup::kStart,
     .name = "IBCOLL_PLACEMENT",
     .type = VariableType::kChoice,
     .default_value = "block",
     .help = "How ranks are placed on emulated servers: `block` fills one server after the "
             "other, `cyclic` distributes the ranks over the servers in turn. `cyclic` is an "
             "error if there are no emulated servers.",
     .choices = "block,cyclic"},
    {.group = VariableGroup::kStart,
     .name = "IBCOLL_HEAP",
     .type = VariableType::kSize,
     .default_value = "0",
     .help = "Address space that each rank reserves for the buffers that it allocates "
             "(`ibcoll_alloc`). Memory is used only when a buffer is allocated. 0: as much as "
             "the machine's memory, or less if there is not enough address space for all ranks "
             "of a server.",
     .high = int64_t{1} << 44},
    {.group = VariableGroup::kTransports,
     .name = "IBCOLL_TRANSPORT",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "The transport between servers. `auto` takes `loopback` if all ranks are on one "
             "machine; otherwise, it takes `verbs` if that can connect all ranks, and `ucx` if "
             "not. `shm` refuses to run on more than one server; `loopback` is a software network "
             "inside one machine; `verbs` is InfiniBand and RoCE; `ucx` is any network that UCX "
             "supports, such as TCP (docs/ucx.md).",
     .choices = "auto,shm",
     .or_network = true},
    {.group = VariableGroup::kTransports,
     .name = "IBCOLL_EAGER",
     .type = VariableType::kSize,
     .default_value = "64K",
     .help =
         "Messages between servers up to this size carry their data at once, without waiting until "
         "the receiver is ready. The data and a header have to fit into one short message of 4K, "
         "or of 60K over UCX (less in jobs of more than about 500 ranks); larger values have no "
         "additional effect. 0: all messages wait for the receiver. Must be the same on all ranks.",
     .high = 64 * 1024},
    {.group = VariableGroup::kTransports,
     .name = "IBCOLL_REGISTRATIONS",
     .type = VariableType::kInteger,
     .default_value = "256",
     .help = "How many memory registrations a rank keeps for buffers between calls.",
     .high = 1 << 20},
    {.group = VariableGroup::kTransports,
     .name = "IBCOLL_MAX_CONNECTIONS",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help =
         "How many connections to ranks of other servers a rank has at a time. If it needs "
         "more, the connection that was used least recently is closed, and reopened when it is "
         "needed again (docs/scale.md). Each rank may have a limit of its own. If a limit on any "
         "rank is lower than its number of ranks on other servers, all ranks have a progress "
         "thread. Not supported over UCX or with `IBCOLL_CONNECT=rdmacm`, which refuse such a "
         "limit. 0: as many as are used; over verbs (not with rdmacm), at most the rank's share of "
         "the device's queue pairs.",
     .high = 1 << 20},
    {.group = VariableGroup::kTransports,
     .name = "IBCOLL_LOOPBACK_PLACING",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "How the software loopback writes data into the memory of another process: `direct` "
             "with process_vm_writev, or `bounce` through shared memory. `auto` is `direct` if "
             "the kernel allows it.",
     .choices = "auto,direct,bounce"},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_DEVICES",
     .type = VariableType::kString,
     .default_value = "",
     .help = "The RDMA ports to use, separated by commas: `mlx5_0` (its first active port) or "
             "`mlx5_0:2`. The ranks of a machine are spread over them. Empty: active ports of "
             "one link layer that all machines have, and on each machine only the fastest of "
             "these. In either case, only ports that reach each other are used."},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_CONNECT",
     .type = VariableType::kChoice,
     .default_value = "datagrams",
     .help = "How queue pairs of different servers are connected: `datagrams` uses datagrams "
             "over the RDMA devices; `rdmacm` uses librdmacm, which connects IP addresses (RoCE "
             "only). Must be the same on all ranks.",
     .choices = "datagrams,rdmacm"},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_GID_INDEX",
     .type = VariableType::kInteger,
     .default_value = "-1",
     .help = "Index of the GID that a port's connections use. -1: with InfiniBand, the first GID; "
             "with RoCE, the first GID of this network namespace that works. With RoCE, these "
             "criteria determine the order in which GIDs are tried, the most important one first: "
             "RoCE v2 before v1; routable addresses before fe80::, and fe80:: before 169.254.x.x; "
             "addresses outside VLANs before those in a VLAN; IPv4 before IPv6.",
     .low = -1,
     .high = 255},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_PKEY",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "InfiniBand partition of the connections, for example 0x8001 or, with the same "
             "meaning, 0x0001. The port has to be a full member of it. 0: the first partition in "
             "the port's table of which it is a full member.",
     .high = 0xffff},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_SERVICE_LEVEL",
     .type = VariableType::kInteger,
     .default_value = "-1",
     .help = "Service level of the connections. -1: with InfiniBand, librdmacm asks the subnet "
             "manager for the service level of each path; if there is no answer, the service "
             "level is 0, and ports in other subnets cannot be reached. With RoCE, it is 0.",
     .low = -1,
     .high = 15},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_TRAFFIC_CLASS",
     .type = VariableType::kInteger,
     .default_value = "-1",
     .help = "Traffic class of the connections. With RoCE, its upper six bits are the DSCP. -1: "
             "with RoCE, the value that is set for the port in "
             "`/sys/class/infiniband/DEVICE/tc/PORT/traffic_class` or, if that file does not "
             "exist or contains no valid value (1 to 255), in "
             "`/sys/kernel/config/rdma_cm/DEVICE/ports/PORT/default_roce_tos`; otherwise 0.",
     .low = -1,
     .high = 255},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_MTU",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Largest size of the packets of the connections, in bytes: 256, 512, 1024, 2048 or "
             "4096; other values are rounded down to these. The ports at both ends and, if the "
             "subnet manager was asked for it, the path may limit a connection to smaller "
             "packets. 0: the largest packets that these allow.",
     .high = 4096},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_RELAXED_ORDERING",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "Whether an RDMA device that supports relaxed ordering may write data to the buffers "
             "of calls out of order on the PCIe bus. The completion that reports the arrival of "
             "data still comes last. `auto`: `on`, except with Intel processors, which gain "
             "nothing from it and some of which implement it incorrectly.",
     .choices = "auto,on,off"},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_RECEIVES",
     .type = VariableType::kInteger,
     .default_value = "1024",
     .help = "How many receives a rank posts for the signals and short messages of all its peers "
             "together. Each receive takes 4 KB.",
     .low = 16,
     .high = 1 << 20},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_ACK_TIMEOUT",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "How long an RDMA device waits for an acknowledgement before it resends: 4.096 us "
             "times two to the power of this value (devices may wait up to four times as long). 0: "
             "the smallest value, at least 14, for which the first attempt and all retries "
             "(`IBCOLL_RETRIES`) together last at least as long as `IBCOLL_PORT_DOWN`. With "
             "smaller values, lost packets are resent sooner.",
     .high = 31},
    {.group = VariableGroup::kVerbs,
     .name = "IBCOLL_RETRIES",
     .type = VariableType::kInteger,
     .default_value = "6",
     .help = "How many times an RDMA device resends before the peer counts as dead. With 7, "
             "Soft-RoCE never gives up.",
     .high = 7},
    {.group = VariableGroup::kUcx,
     .name = "IBCOLL_UCX_OPEN",
     .type = VariableType::kBool,
     .default_value = "off",
     .help = "Whether anyone may connect to the ports of UCX, not only the ranks of the job. "
             "Anyone who connects can end the job. This is needed if UCX cannot be restricted to "
             "the ranks, or if something between the machines changes the addresses or ports of "
             "connections (docs/ucx.md). Must be the same on all ranks."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_RULES",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File of rules that `ib_tune` has written (docs/tuning.md): which algorithm is best "
             "for which call, as measured for the layout, the transport and the machine of this "
             "job. Set it on all ranks; rank 0 reads the file. If no rules in it fit the job, a "
             "warning says what differs, and the engine's own choices apply. Empty: the engine's "
             "own choices apply."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_RULES_STRICT",
     .type = VariableType::kBool,
     .default_value = "off",
     .help = "Whether a job fails to start if no rules in the file of `IBCOLL_RULES` fit it."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_PROGRAMS",
     .type = VariableType::kString,
     .default_value = "",
     .help = "Directory of schedules that become algorithms: its files `*.json` and `*.jsonl`, "
             "as `ib_sched import` and `ib_sched show --json` write them (docs/programs.md). "
             "Calls, rules and tools choose them by name. Set it on all ranks; rank 0 reads the "
             "files. If a schedule cannot be proved correct, the job does not start."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_FABRIC",
     .type = VariableType::kString,
     .default_value = "",
     .help = "The network between the servers, in a form that `ib_topo` accepts: a specification, "
             "a file, or `live` (docs/fabrics.md). Servers are then numbered so that algorithms "
             "that pass data around a ring of servers rarely use the same link twice, and "
             "`contention_free` plans for this network. Must be the same on all ranks. Empty: the "
             "network is not known, and `contention_free` assumes that all servers are alike on "
             "one switch."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_FABRIC_HOSTS",
     .type = VariableType::kString,
     .default_value = "",
     .help = "The names of the servers' hosts in `IBCOLL_FABRIC`, in the order of the servers (by "
             "their lowest ranks): `node[01-16],fat1`. Empty: the names of the machines; for "
             "emulated servers, the first hosts of the network."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_FABRIC_PERMITTED",
     .type = VariableType::kString,
     .default_value = "",
     .help = "Pairs of hosts of `IBCOLL_FABRIC` that may send data to each other, in either "
             "direction: `fat1:node01,fat1:node02`. In plans of `contention_free`, data for other "
             "pairs passes through hosts in between. All other algorithms, and the short control "
             "messages (tokens) of `contention_free`, use all pairs. The value of rank 0 counts. "
             "Empty: all hosts may send to each other."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_FABRIC_ERROR",
     .type = VariableType::kString,
     .default_value = "auto",
     .help =
         "How inaccurate the bandwidths and latencies of `IBCOLL_FABRIC` may be, for example 0.3 "
         "for 30 %. `contention_free` treats links as alike if they differ by no more than that. "
         "0: every difference counts. `auto`: 0.3 for bandwidths if they seem to be measured, that "
         "is, if the network has at least eight cables and most bandwidths occur at only one "
         "cable, and 0 otherwise; the same for latencies. Must be the same on all ranks."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_PLAN_CACHE",
     .type = VariableType::kString,
     .default_value = "",
     .help = "Directory in which plans of `contention_free` are kept from job to job. There is "
             "one file for each network and layout, which is written when a job ends. Plans are "
             "checked when they are read. If a file is damaged or cannot be trusted, a warning "
             "names it, and a new plan is made. Empty: plans are not kept."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_COSTS",
     .type = VariableType::kString,
     .default_value = "measure",
     .help =
         "What copying between cores costs on this machine, which decides how messages "
         "travel inside a server (docs/tuning.md). `measure`: this is measured when a job "
         "starts, which takes a few milliseconds, and kept for an hour in `$XDG_CACHE_HOME/ibcoll` "
         "(or `~/.cache/ibcoll`). `off`: typical values apply. Otherwise, a file that "
         "`ib_info --costs --json` has written. The setting of the first rank of each server "
         "applies."},
    {.group = VariableGroup::kAlgorithms,
     .name = "IBCOLL_LEARN",
     .type = VariableType::kBool,
     .default_value = "on",
     .help = "Whether ranks time some of the messages that they send inside a server, and send "
             "later ones in the way that has taken the least time (docs/tuning.md). If `off`, and "
             "always on machines whose ranks have to share cores, the way depends only on costs "
             "(`IBCOLL_COSTS`). In MPI programs, this variable also decides whether other "
             "algorithms are tried in the calls that are measured (docs/mpi.md)."},
    {.group = VariableGroup::kThreads,
     .name = "IBCOLL_THREADS",
     .type = VariableType::kChoice,
     .default_value = "serialized",
     .help = "Whether the threads of a program may make calls only one at a time (`serialized`) "
             "or at the same time (`multiple`). The program can decide this itself with "
             "`ibcoll_set_thread_level`.",
     .choices = "serialized,multiple"},
    {.group = VariableGroup::kThreads,
     .name = "IBCOLL_PROGRESS_THREAD",
     .type = VariableType::kBool,
     .default_value = "off",
     .help = "Whether each rank has a thread that makes progress on nonblocking calls while the "
             "program computes. The program can decide this itself with "
             "`ibcoll_set_progress_thread`."},
    {.group = VariableGroup::kMulticasts,
     .name = "IBCOLL_MULTICAST_MEMORY",
     .type = VariableType::kSize,
     .default_value = "64M",
     .help = "Memory that multicast messages may take on each rank, from their announcement until "
             "the program has freed them. One message of each sender is accepted even if this "
             "memory is used up; no message may be longer than all of it. A rank that has used up "
             "this memory counts as late for the ranks that send to it.",
     .low = 64 * 1024,
     .high = int64_t{1} << 44},
    {.group = VariableGroup::kMulticasts,
     .name = "IBCOLL_MULTICAST_WINDOW",
     .type = VariableType::kInteger,
     .default_value = "64",
     .help = "How many multicasts of one rank may be under way at a time. Once only late "
             "ranks still lack a multicast, it no longer counts against this limit. Instead, it "
             "counts against each of these late ranks, with the same limit.",
     .low = 1,
     .high = 65535},
    {.group = VariableGroup::kMulticasts,
     .name = "IBCOLL_LOGP",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File that `ib_logp --calls --json` has written on this machine and network: what "
             "messages cost. From this file, `ibcoll_multicast_bound` computes an upper "
             "bound on the time that a multicast takes. Empty: the costs are not known, and there "
             "are no bounds."},
    {.group = VariableGroup::kFailures,
     .name = "IBCOLL_LATE",
     .type = VariableType::kDuration,
     .default_value = "10s",
     .help = "How long a collective waits without any progress before it prints a warning that "
             "names the ranks it waits for. 0: no warnings."},
    {.group = VariableGroup::kFailures,
     .name = "IBCOLL_DEADLINE",
     .type = VariableType::kDuration,
     .default_value = "0",
     .help = "How long a collective waits without any progress before it fails. 0: no limit."},
    {.group = VariableGroup::kFailures,
     .name = "IBCOLL_PORT_DOWN",
     .type = VariableType::kDuration,
     .default_value = "5s",
     .help = "How long a rank waits before it gives up if its RDMA port is down, if there is no "
             "route to a peer, or if a peer does not answer at all. Unless `IBCOLL_ACK_TIMEOUT` "
             "is set, devices keep resending unacknowledged data for at least as long. Over UCX: "
             "how long the machine of a peer may be silent before the peer counts as unreachable."},
    {.group = VariableGroup::kFailures,
     .name = "IBCOLL_CONTROL_TIMEOUT",
     .type = VariableType::kDuration,
     .default_value = "30s",
     .help = "How long a machine may be silent on the management network before its ranks count "
             "as unreachable. Jobs that a launcher has started use this network to start and to "
             "report failures. Collectives that still get their data continue. Values below 1s "
             "count as 1s."},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI",
     .type = VariableType::kChoice,
     .default_value = "on",
     .help = "`on`: the engine carries out collectives. `report`: the same, and at MPI_Finalize "
             "a report shows which calls the library has taken over and which it has not. `off`: "
             "the MPI library carries out all calls, on all ranks if one of them sets this.",
     .choices = "on,report,off"},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI_COLLAPSE",
     .type = VariableType::kBool,
     .default_value = "on",
     .help = "Whether private buffers of 64 KB and more are moved to huge pages in place when "
             "they are passed to a collective for the second time. The ranks of a server can "
             "then copy from and to them faster (Linux 6.1 and later)."},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI_FUNCTIONS",
     .type = VariableType::kString,
     .default_value = "",
     .help = "The functions that the library takes over, separated by commas. Functions for which "
             "all ranks know the size of a call can be restricted to a range of sizes: "
             "`alltoallv,allreduce:0-64K` (docs/mpi.md). Empty: all functions that the library "
             "supports, except for calls that the MPI library carries out faster "
             "(`IBCOLL_MPI_SAMPLING`). `all`: all functions that the library supports, including "
             "those calls. Functions that are not named on all ranks are left to the MPI library."},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI_ORDERED",
     .type = VariableType::kBool,
     .default_value = "off",
     .help = "Whether reductions always combine data in the same order, that of a binomial tree "
             "over the ranks, so that results are bitwise identical however the ranks are placed. "
             "Applies to all ranks if one of them sets it."},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI_RECORD",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File to which rank 0 writes, at MPI_Finalize, how many bytes each rank of "
             "MPI_COMM_WORLD has sent to each other rank. `ib_map` reads it with its option "
             "`--matrix`. The setting of rank 0 applies. Empty: nothing is recorded."},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI_REPORT",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File to which rank 0 writes the library's report as JSON, one object per line. "
             "`-`: standard output. Empty: no file."},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_MPI_SAMPLING",
     .type = VariableType::kChoice,
     .default_value = "on",
     .help = "`on`: some calls are carried out alternately by the engine and by the MPI library "
             "and are timed, and the faster one carries out later calls. `off`: the engine "
             "carries out all calls except those that `IBCOLL_LEARNED` leaves to the MPI "
             "library; this applies to all ranks if one of them sets it. Has no effect if "
             "`IBCOLL_MPI_FUNCTIONS` is set.",
     .choices = "on,off"},
    {.group = VariableGroup::kMpi,
     .name = "IBCOLL_LEARNED",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File of decisions: which calls the engine carries out, and by which algorithm, and "
             "which calls the MPI library carries out. If the file exists, its decisions apply, "
             "and the calls that it covers are not measured. If it does not exist, rank 0 creates "
             "it at MPI_Finalize, with the decisions that were made by measurement, unless "
             "`IBCOLL_MPI_SAMPLING` is `off`. The setting of rank 0 applies. Empty: no file. Has "
             "no effect if `IBCOLL_MPI_FUNCTIONS` is set."},
    {.group = VariableGroup::kDebugging,
     .name = "IBCOLL_LOG_LEVEL",
     .type = VariableType::kChoice,
     .default_value = "warn",
     .help = "The lowest level of messages that are written to standard error.",
     .choices = "trace,debug,info,warn,error,critical,off"},
    {.group = VariableGroup::kDebugging,
     .name = "IBCOLL_CHECK",
     .type = VariableType::kChoice,
     .default_value = "off",
     .help = "Whether ranks compare hashes of what they send and receive, so that a call ends "
             "with an error if a byte has changed in transit (docs/checking.md). `data`: the "
             "comparison ends before the call does. `late`: it ends at the latest before the "
             "next call of the group ends. The setting of rank 0 applies to all ranks.",
     .choices = "off,data,late"},
    {.group = VariableGroup::kDebugging,
     .name = "IBCOLL_LOOPBACK_SEED",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Makes the software loopback reorder and delay messages in all ways that InfiniBand "
             "permits, differently for each seed. 0: off."},
};

}  // namespace ibcoll
