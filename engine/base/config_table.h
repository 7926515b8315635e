#pragma once
/// The `IBCOLL_*` environment variables: one row each. Everything that reads, checks, prints or
/// documents them goes by this table; docs/environment.md is made from it (`./run docs`).

#include <cstdint>
#include <string_view>

namespace ibcoll {

enum class VariableType { kBool, kInteger, kSize, kDuration, kString, kChoice };

struct Variable {
  std::string_view name;
  VariableType type;
  std::string_view default_value;  ///< as a user would write it
  std::string_view help;           ///< one sentence or two
  std::string_view choices = {};   ///< of a kChoice: the allowed values, separated by commas
  int64_t low = 0;                 ///< of a kInteger and kSize: the least allowed value
  int64_t high = INT64_MAX;        ///< and the largest
};

inline constexpr int64_t kMaxConfiguredServers = 1 << 20;

inline constexpr Variable kVariables[] = {
    {.name = "IBCOLL_LOG_LEVEL",
     .type = VariableType::kChoice,
     .default_value = "warn",
     .help = "Least important messages that are written to standard error.",
     .choices = "trace,debug,info,warn,error,critical,off"},
    {.name = "IBCOLL_SERVERS",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Splits the ranks of one machine into this many emulated servers of equal size, which "
             "exchange data only over the network; 0 leaves the servers as they are found.",
     .high = kMaxConfiguredServers},
    {.name = "IBCOLL_LAYOUT",
     .type = VariableType::kString,
     .default_value = "",
     .help = "Splits the ranks of one machine into emulated servers with these numbers of ranks: "
             "`3,1,2` or `24x8` (24 servers of 8). Goes before IBCOLL_SERVERS; empty for none."},
    {.name = "IBCOLL_PLACEMENT",
     .type = VariableType::kChoice,
     .default_value = "block",
     .help = "How ranks are placed on the emulated servers of IBCOLL_SERVERS, IBCOLL_LAYOUT or the "
             "program: one server after the other, or in turn, which is refused where there are "
             "none.",
     .choices = "block,cyclic"},
    {.name = "IBCOLL_TRANSPORT",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "What carries data between servers: `auto` takes the best there is, `shm` refuses to "
             "run on more than one server, `loopback` is software on one machine, `verbs` is "
             "InfiniBand and RoCE, `ucx` any network that UCX knows, such as TCP (docs/ucx.md).",
     .choices = "auto,shm,loopback,verbs,ucx"},
    {.name = "IBCOLL_BOOTSTRAP",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "How a process joins the job it was started in: `pmix` (Open MPI's mpirun, srun "
             "--mpi=pmix), `pmi` (MPICH's and MVAPICH's mpiexec, srun --mpi=pmi2), `alone` (not at "
             "all); `auto` sees which of them the launcher offers.",
     .choices = "auto,pmix,pmi,alone"},
    {.name = "IBCOLL_CONTROL_TIMEOUT",
     .type = VariableType::kDuration,
     .default_value = "30s",
     .help = "How long the machine of another rank of a launcher's job may be silent on the "
             "management network, by which ranks start and report failures, before its ranks count "
             "as unreachable: collectives that get data all the same go on."},
    {.name = "IBCOLL_FABRIC",
     .type = VariableType::kString,
     .default_value = "",
     .help =
         "The network between servers, as `ib_topo` takes it: a specification, a file, or "
         "`live` (docs/fabrics.md). Servers are numbered so that algorithms which walk them as "
         "a ring meet few links twice, and `contention_free` plans for it. The same on all ranks; "
         "empty: not known, and servers that are all alike on one switch."},
    {.name = "IBCOLL_FABRIC_HOSTS",
     .type = VariableType::kString,
     .default_value = "",
     .help = "What the servers' hosts are called in IBCOLL_FABRIC, in the order of the servers "
             "(by their lowest ranks): `node[01-16],fat1`. Empty: as the machines are called; of "
             "emulated servers, the fabric's first hosts."},
    {.name = "IBCOLL_FABRIC_ERROR",
     .type = VariableType::kString,
     .default_value = "auto",
     .help = "How far bandwidths and latencies of IBCOLL_FABRIC may be off, 0.3 for 30 %: "
             "`contention_free` takes links that differ by no more for alike. `auto`: by 0.3 where "
             "most figures of cables of a kind stand for one cable alone, as measured ones do; 0 "
             "takes every difference for real. The same on all ranks."},
    {.name = "IBCOLL_EAGER",
     .type = VariableType::kSize,
     .default_value = "64K",
     .help =
         "Messages between servers up to this size, and to what fits a mail with its head (4K, "
         "over "
         "UCX 60K), are sent with their data at once, without waiting until the receiver is there; "
         "0 for none. The same on all ranks.",
     .high = 64 * 1024},
    {.name = "IBCOLL_MULTICAST_MEMORY",
     .type = VariableType::kSize,
     .default_value = "64M",
     .help = "Memory that multicast messages may take on each rank, from their announcement until "
             "the program has freed them; one of each master may come on top. A rank that has "
             "used it up is late for those that send to it.",
     .low = 64 * 1024,
     .high = int64_t{1} << 44},
    {.name = "IBCOLL_MULTICAST_WINDOW",
     .type = VariableType::kInteger,
     .default_value = "64",
     .help = "Multicasts of one rank that may be under way at a time. One that only late ranks "
             "lack counts against each of those instead, with the same limit.",
     .low = 1,
     .high = 65535},
    {.name = "IBCOLL_LOGP",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File that `ib_logp --calls --json` has written on this machine and network: what "
             "messages cost, by which `ibcoll_multicast_bound` tells how long a multicast takes "
             "at most. Empty: not known, and no bounds are given."},
    {.name = "IBCOLL_RULES",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File that `ib_tune` has written (docs/tuning.md): which algorithm serves which call "
             "best, as it was measured for this job's layout, transport and machine. Rank 0 reads "
             "it; set on all ranks. Where nothing in it fits the job a warning says what differs, "
             "and the engine's own choices hold, as they do with none (empty)."},
    {.name = "IBCOLL_RULES_STRICT",
     .type = VariableType::kBool,
     .default_value = "0",
     .help = "Whether a job fails to start where nothing in IBCOLL_RULES fits it."},
    {.name = "IBCOLL_PLAN_CACHE",
     .type = VariableType::kString,
     .default_value = "",
     .help =
         "Directory where plans of `contention_free` are kept from job to job, a file for each "
         "fabric and shape, written when a job ends. What is read is checked; a file that is "
         "damaged or not to be trusted is named in a warning, and planned anew. Empty: nowhere."},
    {.name = "IBCOLL_LATE",
     .type = VariableType::kDuration,
     .default_value = "10s",
     .help = "How long a collective waits without any progress before it names, in a warning, whom "
             "it waits for; 0 for no warning."},
    {.name = "IBCOLL_DEADLINE",
     .type = VariableType::kDuration,
     .default_value = "0",
     .help =
         "How long a collective may wait without any progress before it fails; 0 for no limit."},
    {.name = "IBCOLL_THREADS",
     .type = VariableType::kChoice,
     .default_value = "serialized",
     .help = "Whether threads of a program may call one at a time, or several at once, where it "
             "does not say so itself (`ibcoll_set_thread_level`).",
     .choices = "serialized,multiple"},
    {.name = "IBCOLL_PROGRESS_THREAD",
     .type = VariableType::kBool,
     .default_value = "0",
     .help = "Whether each rank has a thread that makes progress of nonblocking calls while the "
             "program computes, where it does not say so itself "
             "(`ibcoll_set_progress_thread`)."},
    {.name = "IBCOLL_CHECK",
     .type = VariableType::kChoice,
     .default_value = "off",
     .help =
         "Whether ranks compare hashes of what they send and receive, so that a call in which a "
         "byte has changed on its way ends with an error (docs/checking.md): `data` before a "
         "call ends, `late` at the latest before the next call of the group does. What rank 0 "
         "has counts for all.",
     .choices = "off,data,late"},
    {.name = "IBCOLL_BIND",
     .type = VariableType::kChoice,
     .default_value = "core",
     .help = "Whether the launcher binds each rank to a core.",
     .choices = "none,core"},
    {.name = "IBCOLL_HEAP",
     .type = VariableType::kSize,
     .default_value = "0",
     .help = "Address space reserved for the buffers that a rank allocates; memory is taken only "
             "as it is allocated. 0: as much as the machine has memory, or less where the "
             "address space does not hold that for every rank of a server.",
     .high = int64_t{1} << 44},
    {.name = "IBCOLL_DEVICES",
     .type = VariableType::kString,
     .default_value = "",
     .help = "The RDMA ports that ranks are dealt over, separated by commas: `mlx5_0` (its first "
             "active port) or `mlx5_0:2`. Empty: the active ones of one link layer that all "
             "machines have, of each machine the fastest. Either way only those that reach each "
             "other."},
    {.name = "IBCOLL_GID_INDEX",
     .type = VariableType::kInteger,
     .default_value = "-1",
     .help = "Which of a port's GIDs it is addressed by; -1 prefers RoCE v2 and IPv4.",
     .low = -1,
     .high = 255},
    {.name = "IBCOLL_PKEY",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "InfiniBand partition key of the connections, like 0x8001; 0 takes the first of the "
             "port's table.",
     .high = 0xffff},
    {.name = "IBCOLL_SERVICE_LEVEL",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "InfiniBand service level of the connections.",
     .high = 15},
    {.name = "IBCOLL_TRAFFIC_CLASS",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Traffic class of the connections; with RoCE its upper six bits are the DSCP.",
     .high = 255},
    {.name = "IBCOLL_CONNECT",
     .type = VariableType::kChoice,
     .default_value = "datagrams",
     .help = "How queue pairs of different servers are connected: `datagrams` over the RDMA "
             "devices, or `rdmacm`, librdmacm from IP address to IP address, RoCE only. The same "
             "on all ranks.",
     .choices = "datagrams,rdmacm"},
    {.name = "IBCOLL_ACK_TIMEOUT",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "How long an RDMA device waits for an acknowledgement before it sends again: 4.096 us "
             "times two to this power (devices may take up to four times that). 0: so long, from "
             "14 on, that with IBCOLL_RETRIES it holds out for IBCOLL_PORT_DOWN; less gets over "
             "lost packets sooner.",
     .high = 31},
    {.name = "IBCOLL_RETRIES",
     .type = VariableType::kInteger,
     .default_value = "6",
     .help = "How often an RDMA device sends again before the peer counts as dead. Soft-RoCE takes "
             "7 as without end.",
     .high = 7},
    {.name = "IBCOLL_PORT_DOWN",
     .type = VariableType::kDuration,
     .default_value = "5s",
     .help =
         "How long a rank waits for its RDMA port to come up again, for a way to a peer that is "
         "not there, or for a peer that does not even say that it is busy, before it gives up. "
         "Data on the way is held as long, see IBCOLL_ACK_TIMEOUT."},
    {.name = "IBCOLL_UCX_OPEN",
     .type = VariableType::kBool,
     .default_value = "0",
     .help =
         "Whether UCX listens for everybody, any of whom can end the job then, where it can't be "
         "kept to the job's ranks, or where something between machines changes the addresses "
         "or ports that connections come from (docs/ucx.md)."},
    {.name = "IBCOLL_RECEIVES",
     .type = VariableType::kInteger,
     .default_value = "1024",
     .help = "Receives that a rank posts for signals and mails of all peers together; 4 KB each.",
     .low = 16,
     .high = 1 << 20},
    {.name = "IBCOLL_REGISTRATIONS",
     .type = VariableType::kInteger,
     .default_value = "256",
     .help = "Memory registrations that a rank keeps for buffers between calls.",
     .high = 1 << 20},
    {.name = "IBCOLL_MPI",
     .type = VariableType::kChoice,
     .default_value = "on",
     .help = "What libibcoll_mpi.so, preloaded into an MPI program, does: `on` carries collectives "
             "out by the engine, `report` says at MPI_Finalize, too, what it took over and what "
             "not, `off` leaves everything to the MPI, on all ranks if one says so (docs/mpi.md).",
     .choices = "on,report,off"},
    {.name = "IBCOLL_MPI_COLLAPSE",
     .type = VariableType::kBool,
     .default_value = "1",
     .help =
         "Whether libibcoll_mpi.so moves private buffers of 64 KB and more, when they come to a "
         "collective again, to huge pages in their place, which ranks of a server copy from "
         "and to in less time (Linux 6.1 and later)."},
    {.name = "IBCOLL_MPI_FUNCTIONS",
     .type = VariableType::kString,
     .default_value = "",
     .help =
         "The functions that libibcoll_mpi.so takes over, separated by commas, with a range of "
         "sizes where all ranks know the size: `alltoallv,allreduce:0-64K` (docs/mpi.md). "
         "Empty: all that it can, but for sizes in which the MPI underneath is known to be faster; "
         "`all`: these, too. What not all ranks name stays with the MPI."},
    {.name = "IBCOLL_MPI_ORDERED",
     .type = VariableType::kBool,
     .default_value = "0",
     .help =
         "Whether the reductions that libibcoll_mpi.so takes over combine in one order, that of "
         "a binomial tree over the ranks, so that results have the same bits however the ranks "
         "are placed. On all ranks if one says so."},
    {.name = "IBCOLL_MPI_RECORD",
     .type = VariableType::kString,
     .default_value = "",
     .help = "File that libibcoll_mpi.so writes at MPI_Finalize: how many bytes each rank of "
             "MPI_COMM_WORLD has sent to each other, as `ib_map --matrix` reads it. Rank 0's "
             "setting counts; empty: nothing is recorded."},
    {.name = "IBCOLL_MPI_REPORT",
     .type = VariableType::kString,
     .default_value = "",
     .help =
         "File that libibcoll_mpi.so's report is written to as JSON, one object a line, by rank "
         "0; `-` is standard output. Empty: none."},
    {.name = "IBCOLL_LOOPBACK_PLACING",
     .type = VariableType::kChoice,
     .default_value = "auto",
     .help = "How the software loopback puts data into another process's memory: `direct` with "
             "process_vm_writev, `bounce` through shared memory; `auto` goes direct where the "
             "kernel allows it.",
     .choices = "auto,direct,bounce"},
    {.name = "IBCOLL_LOOPBACK_SEED",
     .type = VariableType::kInteger,
     .default_value = "0",
     .help = "Makes the software loopback reorder and delay everything that InfiniBand permits, "
             "differently for each seed; 0 for off."},
};

}  // namespace ibcoll
