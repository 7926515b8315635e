#include "ucx/packet_filter.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

namespace ibcoll::ucx {
namespace {

constexpr uint32_t kPass = UINT32_MAX, kDrop = 0;
/// Offsets: of the header of TCP at 0, and of that of IP before it.
constexpr uint32_t kSourcePort = 0, kFlags = 13;
constexpr auto kNetwork = static_cast<uint32_t>(SKF_NET_OFF);
constexpr uint32_t kSource4 = kNetwork + 12, kSource6 = kNetwork + 8;
constexpr uint32_t kSyn = 0x02, kSynOrAck = 0x12;

class Assembler {
 public:
  std::vector<sock_filter> code;

  void load(uint16_t size, uint32_t offset) { add(BPF_LD | size | BPF_ABS, offset); }
  void add(int operation, uint32_t k) {
    code.push_back({static_cast<uint16_t>(operation), 0, 0, k});
  }
  /// Compares; where the outcome is `unless`, skips so many instructions.
  void skip(int compare, uint32_t k, bool unless, uint8_t instructions) {
    const auto operation = static_cast<uint16_t>(BPF_JMP | compare | BPF_K);
    code.push_back(
        {operation, unless ? instructions : uint8_t{0}, unless ? uint8_t{0} : instructions, k});
  }
  void end(uint32_t verdict) { add(BPF_RET | BPF_K, verdict); }
  /// A jump whose target aim() tells later.
  size_t jump() {
    add(BPF_JMP | BPF_JA, 0);
    return code.size() - 1;
  }
  void aim(size_t jump) { code[jump].k = static_cast<uint32_t>(code.size() - jump - 1); }
};

uint32_t word(const Address& address, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | address.bytes[at + i];
  return value;
}

using Range = std::pair<uint16_t, uint16_t>;  // first and last
/// Neighbouring ranges make one.
std::vector<Range> joined(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> fewer;
  for (const Range& range : ranges) {
    if (!fewer.empty() && range.first <= fewer.back().second + 1)
      fewer.back().second = std::max(fewer.back().second, range.second);
    else
      fewer.push_back(range);
  }
  return fewer;
}

/// Ranks that have the same addresses: those of a machine.
struct Machine {
  std::vector<Range> ports;
  std::vector<size_t> jumps;  ///< from where its addresses are known
};

void match_addresses(Assembler& to, uint8_t family,
                     std::map<std::vector<std::array<uint8_t, 17>>, Machine>& machines) {
  for (auto& [addresses, machine] : machines) {
    for (const auto& key : addresses) {
      Address address;
      std::copy_n(key.begin() + 1, 16, address.bytes.begin());
      if (key[0] != family) continue;
      if (family == 4) {
        to.skip(BPF_JEQ, word(address, 0), false, 1);
      } else {
        for (uint8_t i = 0; i < 4; ++i) {
          to.load(BPF_W, kSource6 + 4 * i);
          to.skip(BPF_JEQ, word(address, size_t{4} * i), false, static_cast<uint8_t>(7 - 2 * i));
        }
      }
      machine.jumps.push_back(to.jump());
    }
  }
  to.end(kDrop);
}

}  // namespace

std::vector<sock_filter> filter_for(const std::vector<Callers>& callers) {
  std::map<std::vector<std::array<uint8_t, 17>>, Machine> machines;
  for (const Callers& caller : callers) {
    if (caller.addresses.empty() || caller.ports == 0) continue;
    std::vector<std::array<uint8_t, 17>> key;
    for (const Address& address : caller.addresses) {
      std::array<uint8_t, 17> entry{address.family};
      std::copy(address.bytes.begin(), address.bytes.end(), entry.begin() + 1);
      key.push_back(entry);
    }
    machines[key].ports.emplace_back(caller.first_port,
                                     static_cast<uint16_t>(caller.first_port + caller.ports - 1));
  }
  Assembler to;
  to.load(BPF_B, kFlags);
  to.add(BPF_ALU | BPF_AND | BPF_K, kSynOrAck);
  to.skip(BPF_JEQ, kSyn, true, 1);
  to.end(kPass);
  to.load(BPF_B, kNetwork);
  to.add(BPF_ALU | BPF_RSH | BPF_K, 4);
  to.skip(BPF_JEQ, 4, true, 1);
  const size_t to_six = to.jump();
  to.load(BPF_W, kSource4);
  match_addresses(to, 4, machines);
  to.aim(to_six);
  to.skip(BPF_JEQ, 6, true, 1);
  to.end(kDrop);
  match_addresses(to, 6, machines);
  for (auto& [addresses, machine] : machines) {
    for (const size_t jump : machine.jumps) to.aim(jump);
    to.load(BPF_H, kSourcePort);
    for (const Range& range : joined(machine.ports)) {
      to.skip(BPF_JGE, range.first, false, 2);
      to.skip(BPF_JGT, range.second, true, 1);
      to.end(kPass);
    }
    to.end(kDrop);
  }
  return to.code;
}

Status attach_filter(int socket, const std::vector<sock_filter>& filter) {
  if (filter.size() > BPF_MAXINSNS)
    return fail(ErrorCode::kUnsupported, "the kernel takes no filter of {} steps", filter.size());
  const sock_fprog program{static_cast<unsigned short>(filter.size()),
                           const_cast<sock_filter*>(filter.data())};
  if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) return {};
  if (errno == ENOMEM)
    return fail(ErrorCode::kUnsupported,
                "the kernel takes no filter of {} steps (sysctl net.core.optmem_max)",
                filter.size());
  return fail_errno("the kernel takes no filter");
}

}  // namespace ibcoll::ucx
