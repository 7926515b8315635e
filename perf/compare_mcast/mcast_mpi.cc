// The MPI contenders of compare_mcast: the same sets as ib_mcast_bench draws, one after the other,
// from rank 0. One source for every MPI. All ranks know all sets from the seed, so that members
// take part and others do not; the library is spared telling them. A multicast ends when the master
// knows that all members have the message: they take part in an MPI_Reduce of one int to it once
// MPI_Bcast has returned.
//   ready: on communicators of the sets that were made beforehand
//   group: MPI_Comm_create_group, the same, and (not timed) MPI_Comm_free, for each message

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "studies/measure/multicast_sets.h"

namespace {

using ibcoll::measure::draw_set;
using ibcoll::measure::SetDraw;
using ibcoll::measure::SetRandom;

std::vector<long> numbers(const char* list) {
  std::vector<long> all;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) all.push_back(std::atol(part.c_str()));
  return all;
}

/// MPI must find the process bound already.
bool bind_early(const std::vector<long>& processors) {
  const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
  if (text == nullptr) text = std::getenv("PMI_RANK");
  const size_t rank = text == nullptr ? 0 : static_cast<size_t>(std::atol(text));
  if (rank >= processors.size() || processors[rank] < 0) return true;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<int>(processors[rank]), &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

class Contender {
 public:
  Contender(const SetDraw& draw, int warmup, int sets)
      : draw_(draw), warmup_(warmup), sends_(warmup + sets) {
    MPI_Comm_rank(MPI_COMM_WORLD, &me_);
    MPI_Comm_group(MPI_COMM_WORLD, &world_);
    for (int send = 0; send < sends_; ++send) {
      std::vector<int> ranks = draw_set(draw_, 0, static_cast<uint64_t>(send));
      ranks.insert(ranks.begin(), 0);
      taking_part_.push_back(std::find(ranks.begin(), ranks.end(), me_) != ranks.end());
      ranks_.push_back(std::move(ranks));
    }
  }

  void run(size_t bytes) {
    data_.assign(bytes, 1);
    std::vector<MPI_Comm> ready(static_cast<size_t>(sends_), MPI_COMM_NULL);
    for (int send = 0; send < sends_; ++send) ready[at(send)] = make(send);
    measure("ready", [&](int send) { return ready[at(send)]; });
    for (MPI_Comm& one : ready)
      if (one != MPI_COMM_NULL) MPI_Comm_free(&one);
    measure(
        "group", [&](int send) { return make(send); }, true);
  }

 private:
  static size_t at(int send) { return static_cast<size_t>(send); }

  MPI_Comm make(int send) const {
    MPI_Comm made = MPI_COMM_NULL;
    if (!taking_part_[at(send)]) return made;
    MPI_Group group;
    MPI_Group_incl(world_, static_cast<int>(ranks_[at(send)].size()), ranks_[at(send)].data(),
                   &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, send, &made);
    MPI_Group_free(&group);
    return made;
  }

  /// The bytes of the warm-up are looked at.
  void fill(int send) {
    SetRandom random(static_cast<uint64_t>(send));
    for (unsigned char& byte : data_) byte = static_cast<unsigned char>(random.next());
  }
  void check(int send) const {
    SetRandom random(static_cast<uint64_t>(send));
    for (const unsigned char byte : data_) {
      if (byte == static_cast<unsigned char>(random.next())) continue;
      std::fprintf(stderr, "mcast_mpi: rank %d: multicast %d has brought wrong bytes\n", me_, send);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

  template <class Communicator>
  void measure(const char* way, const Communicator& communicator, bool free = false) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> us;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int send = 0; send < sends_; ++send) {
      if (!taking_part_[at(send)]) continue;
      if (me_ == 0 && send < warmup_) fill(send);
      const auto begin = Clock::now();
      MPI_Comm comm = communicator(send);
      MPI_Bcast(data_.data(), static_cast<int>(data_.size()), MPI_BYTE, 0, comm);
      const int mine = 1;
      int all = 0;
      MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, comm);
      const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
      if (send >= warmup_) us.push_back(took.count());
      if (me_ != 0 && send < warmup_) check(send);
      if (free) MPI_Comm_free(&comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me_ != 0) return;
    std::printf("{\"way\":\"%s\",\"bytes\":%zu,\"us\":[", way, data_.size());
    for (size_t i = 0; i < us.size(); ++i) std::printf("%s%.3f", i == 0 ? "" : ",", us[i]);
    std::printf("]}\n");
    std::fflush(stdout);
  }

  SetDraw draw_;
  int warmup_, sends_, me_ = 0;
  MPI_Group world_ = MPI_GROUP_NULL;
  std::vector<std::vector<int>> ranks_;  ///< by send: the master, then the members
  std::vector<bool> taking_part_;
  std::vector<unsigned char> data_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: %s SEED LEAST MOST WARMUP SETS SIZES PROCESSORS (by compare_mcast)\n",
                 argv[0]);
    return 2;
  }
  if (!bind_early(numbers(argv[7]))) {
    std::perror("mcast_mpi: can't bind the ranks");
    return 1;
  }
  MPI_Init(&argc, &argv);
  SetDraw draw;
  MPI_Comm_size(MPI_COMM_WORLD, &draw.ranks);
  draw.seed = std::strtoull(argv[1], nullptr, 10);
  draw.least = std::atoi(argv[2]);
  draw.most = std::atoi(argv[3]);
  if (draw.least < 1 || draw.most < draw.least || draw.most >= draw.ranks) {
    std::fprintf(stderr, "mcast_mpi: no sets of %d to %d members of %d ranks\n", draw.least,
                 draw.most, draw.ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  {
    Contender contender(draw, std::atoi(argv[4]), std::atoi(argv[5]));
    for (const long bytes : numbers(argv[6])) contender.run(static_cast<size_t>(bytes));
  }
  MPI_Finalize();
  return 0;
}
