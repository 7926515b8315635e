#include "tools/ib_info/partners.h"

#include <algorithm>
#include <utility>

#include "engine/execute/mail.h"

namespace ibcoll {
namespace {

class Reader {
 public:
  Reader(const RankProgram& program, const Shape& shape, uint64_t block_bytes, bool eager)
      : program_(program),
        shape_(shape),
        server_(shape.server_of(program.me)),
        slot_bytes_(cut_slot_bytes(block_bytes, program.cut)),
        partners_(shape.ranks()) {
    partners_.call.eager = eager;
  }

  Partners read() {
    for (const OpList& lane : program_.lanes) {
      for (const Op& op : lane) take(op);
      partners_.call.unpacked +=
          OpReader::bytes_for(lane) + StreamReader::bytes_for(program_.streams);
    }
    if (program_.tells_places())
      partners_.call.unpacked += OpReader::bytes_for(program_.lane(Lane::kRecv));
    partners_.call.peers = static_cast<uint64_t>(
        std::count(partners_.connected.begin(), partners_.connected.end(), true));
    return std::move(partners_);
  }

 private:
  void take(const Op& op) {
    switch (op.kind) {
      case OpKind::kPut:
        return put(op.peer, op.count * slot_bytes_);
      case OpKind::kExpect:
        return expect(op.peer, op.count * slot_bytes_);
      case OpKind::kSignal:
        // A token to a rank that has not exposed is a mail.
        if (is_local(op.peer))
          put(op.peer, 0);
        else
          mail(op.peer, sizeof(MailHeader));
        return;
      case OpKind::kWait:
        return expect(op.peer, 0);
      case OpKind::kExpose:
        if (!partners_.call.eager)
          mail(op.to_server ? gateway(shape_, program_.me, op.peer) : op.peer,
               exposure_mail_bytes(2));
        return;
      case OpKind::kWaitExposed:
        return wait_exposed(op.peer);
      case OpKind::kForward:
        if (!partners_.call.eager)
          partners_.call.exposures = std::max<uint64_t>(partners_.call.exposures, op.threshold);
        return;
      case OpKind::kGateSignal:
      case OpKind::kGateWait:
        partners_.gates = true;
        return;
      case OpKind::kCopy:
      case OpKind::kReduce:
        return;
    }
  }

  bool is_local(Rank rank) const { return shape_.server_of(rank) == server_; }
  static size_t index(Rank rank) { return static_cast<size_t>(rank); }

  void put(Rank peer, uint64_t bytes) {
    if (is_local(peer)) return message(peer, bytes);
    connect(peer);
    ++partners_.call.puts;
    if (partners_.call.eager) mail(peer, sizeof(MailHeader) + bytes);
  }

  void expect(Rank peer, uint64_t bytes) {
    if (is_local(peer)) return message(peer, bytes);
    connect(peer);
    ++partners_.call.arrivals;
    partners_.call.bytes += bytes;
  }

  /// Those exposures come through this rank for which it is the gateway.
  void wait_exposed(int server) {
    if (partners_.call.eager) return;
    for (const Rank from : shape_.members(server))
      if (gateway(shape_, from, server_) == program_.me) connect(from);
  }

  void connect(Rank peer) { partners_.connected[index(peer)] = true; }

  void mail(Rank peer, uint64_t bytes) {
    connect(peer);
    partners_.mailed[index(peer)] = true;
    partners_.longest_mail = std::max(partners_.longest_mail, bytes);
  }

  void message(Rank peer, uint64_t bytes) {
    partners_.local[index(peer)] = true;
    partners_.longest_local = std::max(partners_.longest_local, bytes);
  }

  const RankProgram& program_;
  const Shape& shape_;
  const int server_;
  const uint64_t slot_bytes_;
  Partners partners_;
};

}  // namespace

Partners partners_of(const RankProgram& program, const Shape& shape, uint64_t block_bytes,
                     bool eager) {
  return Reader(program, shape, block_bytes, eager).read();
}

}  // namespace ibcoll
