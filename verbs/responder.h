#pragma once
/// Tells peers that this rank can be reached, from a thread of its own: also while the rank
/// computes and polls nothing. Who gets no answer knows that there is no way, or nobody any more,
/// where a rank that is only late would answer.

#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/base/unique_fd.h"
#include "engine/schedule/shape.h"
#include "verbs/datagrams.h"
#include "verbs/queue_pair.h"
#include "verbs/way_finder.h"

namespace ibcoll::verbs {

class Responder {
 public:
  static Result<std::unique_ptr<Responder>> create(const Device& device);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// Where peers ask.
  uint32_t number() const { return datagrams_->number(); }
  /// To be called once: from now on ranks of the job get answers.
  void start(Rank me, uint64_t job, int ranks);

  /// Asks the responder `number` of a peer, to which `way` leads. False: no room now.
  Result<bool> ask(Rank peer, ibv_ah* way, uint32_t number);
  /// How many questions and answers have come from a peer since this was called first for it.
  uint32_t heard(Rank peer);

 private:
  /// A question or an answer.
  struct Datagram {
    uint64_t job = 0;
    int32_t from = -1;
    int32_t to = -1;
    uint32_t number = 0;    ///< of who sends it
    uint32_t question = 0;  ///< 0: an answer
    PortAddress address;    ///< of who sends it
  };
  static_assert(sizeof(Datagram) <= Datagrams::kMaxBytes);
  explicit Responder(const Device& device) : device_(device) {}
  Status start_thread();
  void run();
  Status take(std::span<const std::byte> bytes);
  Status answer_all();
  Result<bool> send(Rank peer, ibv_ah* way, uint32_t to, bool question);

  const Device& device_;
  Rank me_ = -1;
  uint64_t job_ = 0;
  int ranks_ = 0;
  std::map<Rank, uint32_t> heard_;      ///< of the ranks that somebody listens to
  std::unique_ptr<WayFinder> ways_;     ///< the thread's
  std::map<Rank, Datagram> questions_;  ///< the thread's: of each rank the last
  ChannelHandle channel_;
  std::mutex mutex_;  ///< guards datagrams_, heard_ and what start() sets
  std::unique_ptr<Datagrams> datagrams_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace ibcoll::verbs
