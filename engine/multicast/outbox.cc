#include "engine/multicast/outbox.h"

namespace ibcoll {

MulticastOutbox::MulticastOutbox(const MulticastServices& services) : services_(services) {}
MulticastOutbox::~MulticastOutbox() = default;

bool MulticastOutbox::offer(Rank to, std::span<const std::byte> mail, size_t data_bytes) {
  const bool gone = services_.job.same_server(to, services_.me)
                        ? services_.local.offer_mail(to, mail)
                        : services_.network->mail(to, mail, data_bytes);
  sent_ += static_cast<uint64_t>(gone);
  return gone;
}

void MulticastOutbox::post(Rank to, std::span<const std::byte> mail, size_t data_bytes) {
  if (services_.executor.has_lost(to)) return;
  const bool waits = !waiting_.empty() && waiting_.contains(to);
  if (!waits && offer(to, mail, data_bytes)) return;
  waiting_[to].push_back({std::vector<std::byte>(mail.begin(), mail.end()), data_bytes});
}

void MulticastOutbox::send(Rank to, MulticastHead head, std::span<const std::byte> body,
                           std::span<const std::byte> data) {
  size_t data_bytes = data.size();
  for_each_mail(head, body, data, [&](std::span<const std::byte> mail) {
    post(to, mail, data_bytes);
    data_bytes = 0;  // they count once
  });
}

bool MulticastOutbox::advance() {
  bool moved = false;
  for (auto queue = waiting_.begin(); queue != waiting_.end();) {
    std::deque<Waiting>& mails = queue->second;
    while (!mails.empty() && offer(queue->first, mails.front().mail, mails.front().data_bytes)) {
      mails.pop_front();
      moved = true;
    }
    queue = mails.empty() ? waiting_.erase(queue) : std::next(queue);
  }
  return moved;
}

}  // namespace ibcoll
