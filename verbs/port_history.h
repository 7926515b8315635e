#pragma once
/// When a rank's own port was down: who can't be reached then is not to blame.

#include <cstdint>
#include <string>

namespace ibcoll::verbs {

class PortHistory {
 public:
  void went_down(int64_t now_ns);
  void came_up(int64_t now_ns);
  bool is_down() const { return down_; }
  /// How long it has been down; 0: it is up.
  int64_t down_for_ns(int64_t now_ns) const { return down_ ? now_ns - down_since_ns_ : 0; }
  /// What there is to say of a port that is down or was within the last `span_ns`: "is down, for
  /// 2.1 s", "was down for 2.1 s until 0.3 s ago". Empty: nothing.
  std::string trouble(int64_t now_ns, int64_t span_ns) const;

 private:
  bool down_ = false;
  bool was_down_ = false;
  int64_t down_since_ns_ = 0;
  int64_t up_since_ns_ = 0;
};

}  // namespace ibcoll::verbs
