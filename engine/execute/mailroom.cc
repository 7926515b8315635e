#include "engine/execute/mailroom.h"

#include <algorithm>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/execute/arrival_runs.h"
#include "engine/execute/exposure_mail.h"
#include "engine/execute/registration.h"

namespace ibcoll {
namespace {

constexpr size_t kPollBatch = 32;
/// What exposures go in: some are passed on as mails inside of a server.
IBCOLL_LIMIT(size_t, kExposureBytes, NetworkTransport::kMaxMailBytes);

MailHeader header_of(std::span<const std::byte> mail) {
  MailHeader header;
  std::memcpy(&header, mail.data(), sizeof(header));
  return header;
}

/// `rank`: of the job, until the call ends.
void record_arrival(PostedCall& call, Rank rank, bool token) {
  if (call.record != nullptr) [[unlikely]]
    call.record->rank.arrivals.push_back({rank, token, now_ns()});
}

}  // namespace

Mailroom::Mailroom(LocalTransport& local, NetworkTransport* network, const CallsUnderWay& calls,
                   Disagreements& disagreements, GroupEnds& ends, JobEnd& end, Cells::Share cells)
    : local_(local),
      network_(network),
      calls_(calls),
      disagreements_(disagreements),
      ends_(ends),
      end_(end),
      cells_(cells),
      mail_(network == nullptr ? 0 : network->max_data_mail_bytes()) {}
Mailroom::~Mailroom() = default;

MailHeader Mailroom::header_for(const PostedCall& call, MailKind kind) {
  MailHeader header{};
  header.group = call.key.group;
  header.sequence = call.key.sequence;
  header.program = call.key.program;
  header.from = call.group->me;
  header.kind = kind;
  header.block_bytes = call.binding.block_bytes;
  return header;
}

Status Mailroom::open(PostedCall& call) {
  call.remote.clear();
  if (call.binding.unequal) index_expects(call);
  if (network_ == nullptr) return {};
  return register_buffers(call, *network_, own_regions_, user_registrations_);
}

void Mailroom::accept_early_mails(PostedCall& call) {
  const MessageStore::Key key{call.key.group, call.key.sequence};
  for (auto mail = early_mails_.front(key); !mail.empty(); mail = early_mails_.front(key)) {
    accept(call, mail);
    early_mails_.pop(key);
  }
}

void Mailroom::forget(uint64_t group) {
  early_mails_.forget(group, [](auto) {});
  local_.drop(group);
  for (const Asked& asked : disagreements_.forget(group))
    ends_.tell(group, asked.inquiry.rank, asked.local);
}

void Mailroom::close(PostedCall& call) {
  if (network_ != nullptr) deregister_buffers(call, *network_, own_regions_);
  cells_.give_back(*call.remote.cell);
  call.remote.cell.reset();
}

bool Mailroom::poll() {
  std::array<Arrival, kPollBatch> arrivals;
  const size_t count = network_->poll(arrivals);
  size_t moved = count;
  for (size_t i = 0; i < count; ++i) {
    if (arrivals[i].kind == Arrival::Kind::kMail) {
      // Those that wait are told again and again why that does not end: it does not move anything.
      if (header_of(arrivals[i].mail).kind == MailKind::kStuck) [[unlikely]]
        --moved;
      deliver(arrivals[i].mail, false, arrivals[i].from);
    } else {
      count_signal(arrivals[i]);
    }
  }
  const bool mails = take_local_mails(kMailsAtOnce);
  if (const auto failure = network_->failure()) [[unlikely]]
    end_.abort(*failure);
  return moved != 0 || mails;
}

void Mailroom::count_signal(const Arrival& arrival) {
  PostedCall* const call = cells_.find(arrival.immediate);
  if (call == nullptr) [[unlikely]] {
    end_.give_up(
        {ErrorCode::kInternal, fmt::format("rank {} sent a signal ({:#x}) that no call waits for",
                                           arrival.from, arrival.immediate)});
    return;
  }
  const bool token = (arrival.immediate & Cell::kToken) != 0;
  PeerState& peer = call->remote.peers[arrival.from];
  if (!token) took(Way::kPut);
  ++(token ? peer.tokens : peer.arrivals);
  record_arrival(*call, arrival.from, token);
}

bool Mailroom::take_local_mails(size_t most) {
  size_t taken = 0;
  for (; taken < most; ++taken) {
    const auto mail = local_.take_mail();
    if (mail.empty()) break;
    deliver(mail, true, -1);
  }
  return taken != 0;
}

void Mailroom::hand_to_runs(std::span<const std::byte> mail, bool local) {
  if (runs_ != nullptr) return runs_->take(mail, local);
  end_.give_up({ErrorCode::kInternal, "a multicast's mail came to a rank that takes none"});
}

/// Hands a mail to its call, or keeps it until this rank makes that call. `from`: the rank of the
/// job, if it is of another server.
void Mailroom::deliver(std::span<const std::byte> mail, bool local, Rank from) {
  const MailHeader header = header_of(mail);
  if (header.kind == MailKind::kMulticast) return hand_to_runs(mail, local);
  if (header.kind == MailKind::kEnd) [[unlikely]] {
    ends_.take(mail, local);
    // Of one that this rank has not made, or has freed.
    if (ends_.is_over(header.group)) forget(header.group);
    return;
  }
  if (ends_.is_over(header.group)) [[unlikely]] {
    if (header.kind == MailKind::kInquiry) ends_.tell(header.group, inquirer(mail), local);
    return;
  }
  if (header.kind == MailKind::kInquiry || header.kind == MailKind::kStuck)
    return disagreements_.take(mail, local);
  if (header.kind == MailKind::kExposure) learn_keys(mail);
  if (PostedCall* call = calls_.find({header.group, header.sequence}); call && call->outward) {
    accept(*call, mail);
  } else if (const GroupState* const group = ends_.find(header.group);
             header.kind == MailKind::kData &&
             (group == nullptr || group->calls.has_ended(header.sequence))) [[unlikely]] {
    // Freed, or not made yet.
    if (!disagreements_.dispute_ended(header, from) && group == nullptr)
      early_mails_.keep({header.group, header.sequence}, mail);
  } else {
    early_mails_.keep({header.group, header.sequence}, mail);
  }
}

/// At once, for the sender does not tell them again: the exposure of another call, which this rank
/// has made already, may need them.
void Mailroom::learn_keys(std::span<const std::byte> mail) {
  Exposure exposure;
  std::memcpy(&exposure, mail.data() + sizeof(MailHeader), sizeof(exposure));
  for_each_key(mail, [&](const RegionKey& key, std::span<const std::byte> packed) {
    if (Status known = peer_regions_.learn(*network_, exposure.rank, key, packed); !known)
      end_.give_up(known.error());
  });
}

void Mailroom::accept(PostedCall& call, std::span<const std::byte> mail) {
  const MailHeader header = header_of(mail);
  const Rank peer = call.group->to_job[header.from];
  if (header.program != call.key.program) return disagreements_.dispute(call, peer);
  if (header.kind == MailKind::kToken) {
    ++call.remote.peers[peer].tokens;
    return record_arrival(call, peer, true);
  }
  if (!header.by_landing && header.block_bytes != call.binding.block_bytes) {
    return disagreements_.mismatch(
        call, peer,
        fmt::format("rank {} expects blocks of {} bytes where they have {} here", peer,
                    header.block_bytes, call.binding.block_bytes));
  }
  if ((header.kind == MailKind::kData) != call.binding.eager) {
    return disagreements_.mismatch(call, peer,
                                   fmt::format("rank {} has another IBCOLL_EAGER", peer));
  }
  return call.binding.eager ? accept_data(call, mail) : accept_exposure(call, mail);
}

void Mailroom::accept_data(PostedCall& call, std::span<const std::byte> mail) {
  const MailHeader header = header_of(mail);
  const Rank from = call.group->to_job[header.from];
  call.remote.keep(from, mail.subspan(sizeof(header)));
  record_arrival(call, from, false);
}

void Mailroom::accept_exposure(PostedCall& call, std::span<const std::byte> mail) {
  const MailHeader header = header_of(mail);
  Exposure exposure;
  std::memcpy(&exposure, mail.data() + sizeof(header), sizeof(exposure));
  RemoteState& remote = call.remote;
  PeerState& peer = remote.peers[exposure.rank];
  peer.cell = exposure.cell;
  peer.recv = exposure.recv;
  peer.scratch = exposure.scratch;
  const size_t landings = for_each_key(mail, [](const auto&, auto) {});
  for (uint16_t i = 0; i < exposure.landings; ++i) {
    Landing landing;
    std::memcpy(&landing, mail.data() + landings + i * sizeof(landing), sizeof(landing));
    if (landing.sender != call.group->me) continue;
    remote.landings.push_back({landing.place, landing.bytes});
    peer.landings.push(remote.landings, static_cast<uint32_t>(remote.landings.size() - 1));
  }
  if (!header.more) ++peer.exposures;
  if (header.to_server) forward(call, mail);
}

/// An exposure addressed to this server is meant for its other ranks, too.
void Mailroom::forward(PostedCall& call, std::span<const std::byte> mail) {
  MailHeader header = header_of(mail);
  const Shape& shape = call.group->shape;
  if (shape.server_size(shape.server_of(call.group->me)) == 1) {
    if (!header.more) ++call.remote.forwarded;
    return;
  }
  Forwarding& forwarding = call.remote.forwarding.add();
  forwarding.last = !header.more;
  forwarding.mail.assign(mail.begin(), mail.end());
  header.to_server = false;
  std::memcpy(forwarding.mail.data(), &header, sizeof(header));
}

bool Mailroom::pass_on(PostedCall& call) {
  bool moved = false;
  const Shape& shape = call.group->shape;
  const auto members = shape.members(shape.server_of(call.group->me));
  while (!call.remote.forwarding.empty()) {
    Forwarding& next = call.remote.forwarding.front();
    for (; next.next_local < static_cast<int>(members.size()); ++next.next_local) {
      if (members[next.next_local] == call.group->me) continue;
      if (!local_.offer_mail(call.group->to_job[members[next.next_local]], next.mail)) return moved;
      moved = true;
    }
    if (next.last) ++call.remote.forwarded;
    took(Way::kForward);
    call.remote.forwarding.pop();
  }
  return moved;
}

/// Groups the receive lane's expects by the sender's server: exposures with landings list those of
/// one server.
void Mailroom::index_expects(PostedCall& call) {
  const OpList& lane = call.program->lane(Lane::kRecv);
  const Shape& shape = call.group->shape;
  OpReader& ops = call.remote.receives;
  auto& expects = call.remote.expects_by_server;
  ops.open(lane);
  expects.clear();
  for (uint32_t i = 0; i < lane.size(); ++i) {
    if (const Op& op = ops[i]; op.kind == OpKind::kExpect)
      expects.push_back({shape.server_of(op.peer), i, op.peer, op.exposure});
  }
  std::sort(expects.begin(), expects.end());
}

/// Adds the landings of an exposure from number `sent` on; false if not all of them fit.
bool Mailroom::add_landings(const PostedCall& call, const Op& op, size_t sent, ExposureMail& mail) {
  const Shape& shape = call.group->shape;
  const int server = op.to_server ? op.peer : shape.server_of(op.peer);
  const auto& expects = call.remote.expects_by_server;
  auto it = std::ranges::lower_bound(expects, server, {}, &RemoteState::Expected::server);
  size_t seen = 0;
  for (; it != expects.end() && it->server == server; ++it) {
    if (it->exposure != op.exposure || (!op.to_server && it->peer != op.peer)) continue;
    if (seen++ < sent) continue;
    const Op& expect = call.remote.receives[it->place];
    Landing landing{};
    landing.sender = expect.peer;
    landing.bytes = call.binding.length(expect.dst_buffer, expect.dst_first, expect.count);
    const RegisteredMemory memory = call.remote.regions_of(expect.dst_buffer).of(expect.dst_first);
    if (!mail.add(landing, memory, call.binding.address(expect.dst_buffer, expect.dst_first)))
      return false;
  }
  return true;
}

bool Mailroom::send_exposure(PostedCall& call, const Op& op, size_t& sent) {
  const GroupState& group = *call.group;
  MailHeader header = header_for(call, MailKind::kExposure);
  header.to_server = op.to_server;
  header.by_landing = call.binding.unequal;
  // Servers, then ranks.
  const auto receiver = static_cast<uint32_t>(op.peer) +
                        (op.to_server ? 0 : static_cast<uint32_t>(group.shape.servers()));
  // It may be passed on inside of a server.
  ExposureMail mail({mail_.data(), kExposureBytes}, own_regions_, *network_,
                    {call.key.group, receiver});
  Exposure exposure{};
  exposure.cell = *call.remote.cell;
  exposure.rank = group.to_job[group.me];
  if (call.binding.unequal) {
    header.more = !add_landings(call, op, sent, mail);
  } else {
    const auto place_of = [&](Buffer buffer) {
      const auto& registered = call.remote.regions_of(buffer).registered;
      if (registered.empty()) return RegionPlace{};
      return *mail.place_of(registered[0], call.binding[buffer].base);
    };
    exposure.recv = place_of(Buffer::kRecv);
    exposure.scratch = place_of(Buffer::kScratch);
  }
  const Rank to = op.to_server ? gateway(group.shape, group.me, op.peer) : op.peer;
  if (!network_->mail(group.to_job[to], mail.finish(header, exposure))) return false;
  mail.note_sent();
  sent = header.more ? sent + mail.landings() : 0;
  return true;
}

bool Mailroom::send_token(PostedCall& call, Rank peer) {
  const Rank to = call.group->to_job[peer];
  const PeerState* state = call.remote.peers.find(to);
  if (state != nullptr && state->exposures > 0)
    return network_->signal(to, state->cell | Cell::kToken);
  const MailHeader header = header_for(call, MailKind::kToken);
  std::memcpy(mail_.data(), &header, sizeof(header));
  return network_->mail(to, std::span(mail_).first(sizeof(header)));
}

bool Mailroom::fits_mail(const PostedCall& call, size_t bytes) {
  if (bytes <= max_mail_data(*network_)) return true;
  end_.give_up({ErrorCode::kInternal,
                fmt::format("{} sends {} bytes at once where {} fit", call.program->algorithm,
                            bytes, max_mail_data(*network_))});
  return false;
}

/// The data stand behind the place of the head.
bool Mailroom::send_data_mail(PostedCall& call, Rank peer, size_t bytes) {
  const MailHeader header = header_for(call, MailKind::kData);
  std::memcpy(mail_.data(), &header, sizeof(header));
  return network_->mail(call.group->to_job[peer], std::span(mail_).first(sizeof(header) + bytes),
                        bytes);
}

bool Mailroom::send_data(PostedCall& call, Rank peer, std::span<const std::byte> data) {
  if (!fits_mail(call, data.size())) return false;
  if (!data.empty()) std::memcpy(mail_.data() + sizeof(MailHeader), data.data(), data.size());
  return send_data_mail(call, peer, data.size());
}

bool Mailroom::send_data(PostedCall& call, Rank peer, const StridedView& data, size_t bytes) {
  if (!fits_mail(call, bytes)) return false;
  copy_strided({mail_.data() + sizeof(MailHeader)}, data, bytes);
  return send_data_mail(call, peer, bytes);
}

}  // namespace ibcoll
