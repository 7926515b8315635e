#pragma once
/// Connections that carry nothing. The kernels at their ends answer each other, also for a process
/// that is stopped: so they tell one that is late from one that is gone or can't be reached.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/bootstrap/control_socket.h"
#include "engine/schedule/shape.h"

namespace ibcoll::ucx {

/// Where a rank takes its peers' lifelines.
struct LifelinePlace {
  static constexpr size_t kAddresses = 4;
  int32_t port = 0;
  /// As text; those that are empty, at the end, are none.
  std::array<std::array<char, 46>, kAddresses> addresses{};

  size_t count() const;
};

class Lifelines {
 public:
  enum class State : uint8_t {
    kUnknown,  ///< not yet, or there is no way to know
    kThere,    ///< the peer's machine answers, and its process has not ended
    kGone,     ///< the process has ended
    kSilent,   ///< the machine has not answered for too long
  };

  /// `silence_ns`: how long is too long. `devices`: the interfaces that peers reach this rank by;
  /// none of them: all.
  static Result<std::unique_ptr<Lifelines>> open(int64_t silence_ns,
                                                 const std::vector<std::string>& devices);
  LifelinePlace place() const;
  /// The socket that takes those of peers.
  int listener() const { return listener_.fd(); }
  /// Lifelines to peers come from this port; 0: from any.
  void come_from(uint16_t port) { own_port_ = port; }
  /// Places and machines by rank.
  void start(std::vector<LifelinePlace> places, const std::vector<int>& machines, Rank me);
  /// Takes those that peers have begun.
  void accept();
  /// How it stands with a peer; the first time it is asked a lifeline begins. A peer may have
  /// addresses that lead nowhere, or to another machine: it is gone or silent once none is left.
  State look(Rank peer, int64_t now_ns);
  /// Something came from it: it has not been silent so far.
  void heard(Rank peer);

 private:
  struct Line {
    UniqueFd socket;
    bool up = false;
    int64_t unanswered_since_ns = 0;
    int64_t retry_at_ns = 0;    ///< when the next address is asked, with none being asked
    int64_t give_up_at_ns = 0;  ///< when the one that is asked has had its time
    size_t attempts = 0;
    size_t failed = 0;     ///< addresses in a row
    bool refused = false;  ///< by one of them

    void ask_anew(int64_t now_ns);
    void fail(size_t addresses, bool refuses, int64_t now_ns);
  };

  void connect(Line& line, const LifelinePlace& place, int64_t now_ns);
  State wait_for_answer(Line& line, size_t addresses, int64_t now_ns);

  int64_t silence_ns_ = 0;
  uint16_t own_port_ = 0;
  std::vector<std::string> own_;
  ControlListener listener_;
  std::vector<UniqueFd> taken_;
  std::vector<LifelinePlace> places_;
  std::vector<Line> lines_;  ///< by rank
};

}  // namespace ibcoll::ucx
