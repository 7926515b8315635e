// The executor's side of the network: exposures, tokens, arrivals.

#include <algorithm>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/execute/executor.h"

namespace ibcoll {
namespace {

constexpr size_t kPollBatch = 32;
constexpr size_t kExposureBytes = sizeof(MailHeader) + sizeof(Exposure);

MailHeader header_of(std::span<const std::byte> mail) {
  MailHeader header;
  std::memcpy(&header, mail.data(), sizeof(header));
  return header;
}

}  // namespace

MailHeader Executor::header_for(const Run& run, MailKind kind) {
  MailHeader header{};
  header.group = run.key.group;
  header.sequence = run.key.sequence;
  header.program = run.key.program;
  header.from = run.group->me;
  header.kind = kind;
  header.block_bytes = run.binding.block_bytes;
  return header;
}

Run* Executor::find(const CallKey& call) {
  for (Run* run : active_) {
    if (run->call() == call && run->outward) return run;
  }
  return nullptr;
}

bool Executor::poll_network() {
  std::array<Arrival, kPollBatch> arrivals;
  const size_t count = network_->poll(arrivals);
  for (size_t i = 0; i < count; ++i) {
    const Arrival& arrival = arrivals[i];
    if (arrival.kind == Arrival::Kind::kMail) {
      deliver(arrival.mail);
      continue;
    }
    const auto [run, cell] = cells_.find(arrival.immediate);
    const auto rank = static_cast<Rank>(cell);
    if (run == nullptr || rank >= run->group->shape.ranks()) [[unlikely]] {
      give_up(
          {ErrorCode::kInternal, fmt::format("rank {} sent a signal ({:#x}) that no call waits for",
                                             arrival.from, arrival.immediate)});
      return true;
    }
    const bool token = (arrival.immediate & Cell::kToken) != 0;
    PeerState& peer = run->peers[rank];
    ++(token ? peer.tokens : peer.arrivals);
    if (run->record != nullptr) [[unlikely]]
      run->record->rank.arrivals.push_back({rank, token, now_ns()});
  }
  const bool mails = take_local_mails();
  if (const auto failure = network_->failure()) [[unlikely]]
    abort(*failure);
  return count != 0 || mails;
}

bool Executor::take_local_mails() {
  bool any = false;
  for (auto mail = local_.take_mail(); !mail.empty(); mail = local_.take_mail()) {
    deliver(mail);
    any = true;
  }
  return any;
}

/// Hands a mail to its call, or keeps it until this rank makes that call.
void Executor::deliver(std::span<const std::byte> mail) {
  const MailHeader header = header_of(mail);
  if (header.kind == MailKind::kInquiry || header.kind == MailKind::kStuck)
    return take_inquiry(mail);
  if (Run* run = find({header.group, header.sequence})) {
    accept(*run, mail);
  } else {
    early_mails_.keep({header.group, header.sequence}, mail);
  }
}

void Executor::accept_early_mails(Run& run) {
  const MessageStore::Key key{run.key.group, run.key.sequence};
  for (auto mail = early_mails_.front(key); !mail.empty(); mail = early_mails_.front(key)) {
    accept(run, mail);
    early_mails_.pop(key);
  }
}

void Executor::accept(Run& run, std::span<const std::byte> mail) {
  const MailHeader header = header_of(mail);
  if (header.program != run.key.program) return dispute(run, header.from);
  if (header.kind == MailKind::kToken) {
    ++run.peers[header.from].tokens;
    if (run.record != nullptr) [[unlikely]]
      run.record->rank.arrivals.push_back({header.from, true, now_ns()});
    return;
  }
  if (!header.by_landing && header.block_bytes != run.binding.block_bytes) {
    mismatch(
        run, header.from,
        fmt::format("rank {} expects blocks of {} bytes where they have {} here",
                    run.group->to_job[header.from], header.block_bytes, run.binding.block_bytes));
    return;
  }
  if ((header.kind == MailKind::kData) != run.binding.eager) {
    mismatch(run, header.from,
             fmt::format("rank {} has another IBCOLL_EAGER", run.group->to_job[header.from]));
    return;
  }
  if (run.binding.eager) {
    const auto data = mail.subspan(sizeof(header));
    run.mailed.push_back({run.mailed_data.size(), data.size()});
    run.peers[header.from].mailed.push(run.mailed, static_cast<uint32_t>(run.mailed.size() - 1));
    run.mailed_data.insert(run.mailed_data.end(), data.begin(), data.end());
    if (run.record != nullptr) [[unlikely]]
      run.record->rank.arrivals.push_back({header.from, false, now_ns()});
    return;
  }
  Exposure exposure;
  std::memcpy(&exposure, mail.data() + sizeof(header), sizeof(exposure));
  PeerState& peer = run.peers[header.from];
  peer.cell = exposure.cell + static_cast<uint32_t>(run.group->me);
  peer.recv = exposure.recv;
  peer.scratch = exposure.scratch;
  for (uint32_t i = 0; i < exposure.landings; ++i) {
    Landing landing;
    std::memcpy(&landing, mail.data() + kExposureBytes + i * sizeof(landing), sizeof(landing));
    if (landing.sender != run.group->me) continue;
    run.landings.push_back({landing.place, landing.bytes});
    peer.landings.push(run.landings, static_cast<uint32_t>(run.landings.size() - 1));
  }
  if (!header.more) ++peer.exposures;
  if (!header.to_server) return;
  if (run.group->shape.server_size(run.group->shape.server_of(run.group->me)) == 1) {
    if (!header.more) ++run.forwarded;
    return;
  }
  Forwarding& forwarding = run.forwarding.add();
  forwarding.last = !header.more;
  forwarding.mail.assign(mail.begin(), mail.end());
  MailHeader copy = header;
  copy.to_server = false;
  std::memcpy(forwarding.mail.data(), &copy, sizeof(copy));
}

/// Passes exposures addressed to this server on to its other ranks.
bool Executor::pass_on(Run& run) {
  bool moved = false;
  const Shape& shape = run.group->shape;
  const auto members = shape.members(shape.server_of(run.group->me));
  while (!run.forwarding.empty()) {
    Forwarding& next = run.forwarding.front();
    for (; next.next_local < static_cast<int>(members.size()); ++next.next_local) {
      if (members[next.next_local] == run.group->me) continue;
      if (!local_.offer_mail(run.group->to_job[members[next.next_local]], next.mail)) return moved;
      moved = true;
    }
    if (next.last) ++run.forwarded;
    run.forwarding.pop();
  }
  return moved;
}

/// Groups the receive lane's expects by the sender's server: exposures with landings list those of
/// one server.
void Executor::index_expects(Run& run) {
  const auto& ops = run.program->lane(Lane::kRecv);
  run.expects_by_server.clear();
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::kExpect) run.expects_by_server.push_back(i);
  }
  const Shape& shape = run.group->shape;
  std::stable_sort(run.expects_by_server.begin(), run.expects_by_server.end(),
                   [&](uint32_t a, uint32_t b) {
                     return shape.server_of(ops[a].peer) < shape.server_of(ops[b].peer);
                   });
}

/// Sends the next mail of an exposure; `sent` counts its landings that are on their way, and is 0
/// again when all are. False: no room now.
bool Executor::send_exposure(Run& run, const Op& op, size_t& sent) {
  const Shape& shape = run.group->shape;
  const Binding& binding = run.binding;
  MailHeader header = header_for(run, MailKind::kExposure);
  header.to_server = op.to_server;
  header.by_landing = binding.unequal;
  Exposure exposure{};
  exposure.cell = run.cells->immediate;
  exposure.recv = {reinterpret_cast<uint64_t>(binding[Buffer::kRecv].base),
                   run.keys_of(Buffer::kRecv).all.remote};
  exposure.scratch = {reinterpret_cast<uint64_t>(binding[Buffer::kScratch].base),
                      run.keys_of(Buffer::kScratch).all.remote};
  run.mail.resize(kExposureBytes);
  if (binding.unequal) {
    const auto& ops = run.program->lane(Lane::kRecv);
    const int server = op.to_server ? op.peer : shape.server_of(op.peer);
    auto it = std::lower_bound(run.expects_by_server.begin(), run.expects_by_server.end(), server,
                               [&](uint32_t i, int s) { return shape.server_of(ops[i].peer) < s; });
    size_t seen = 0;
    for (; it != run.expects_by_server.end() && shape.server_of(ops[*it].peer) == server; ++it) {
      const Op& expect = ops[*it];
      if (expect.exposure != op.exposure || (!op.to_server && expect.peer != op.peer)) continue;
      if (seen++ < sent) continue;
      if (exposure.landings == kMaxMailLandings) {
        header.more = true;
        break;
      }
      const std::byte* place = binding.address(expect.dst_buffer, expect.dst_first);
      const Landing landing{expect.peer,
                            0,
                            {reinterpret_cast<uint64_t>(place),
                             run.keys_of(expect.dst_buffer).of(expect.dst_first).remote},
                            binding.length(expect.dst_buffer, expect.dst_first, expect.count)};
      const size_t at = run.mail.size();
      run.mail.resize(at + sizeof(landing));
      std::memcpy(run.mail.data() + at, &landing, sizeof(landing));
      ++exposure.landings;
    }
  }
  std::memcpy(run.mail.data(), &header, sizeof(header));
  std::memcpy(run.mail.data() + sizeof(header), &exposure, sizeof(exposure));
  const Rank to = op.to_server ? gateway(shape, run.group->me, op.peer) : op.peer;
  if (!network_->mail(run.group->to_job[to], run.mail)) return false;
  sent = header.more ? sent + exposure.landings : 0;
  return true;
}

bool Executor::send_token(Run& run, Rank peer) {
  const PeerState* state = run.peers.find(peer);
  if (state != nullptr && state->exposures > 0)
    return network_->signal(run.group->to_job[peer], state->cell | Cell::kToken);
  const MailHeader header = header_for(run, MailKind::kToken);
  run.mail.resize(sizeof(header));
  std::memcpy(run.mail.data(), &header, sizeof(header));
  return network_->mail(run.group->to_job[peer], run.mail);
}

/// An eager message.
bool Executor::send_data(Run& run, Rank peer, std::span<const std::byte> data) {
  if (data.size() > kMaxMailData) {
    give_up({ErrorCode::kInternal, fmt::format("{} sends {} bytes at once where {} fit",
                                               run.program->algorithm, data.size(), kMaxMailData)});
    return false;
  }
  const MailHeader header = header_for(run, MailKind::kData);
  run.mail.resize(sizeof(header) + data.size());
  std::memcpy(run.mail.data(), &header, sizeof(header));
  if (!data.empty()) std::memcpy(run.mail.data() + sizeof(header), data.data(), data.size());
  return network_->mail(run.group->to_job[peer], run.mail, data.size());
}

}  // namespace ibcoll
