#include "engine/bootstrap/hosted_job.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/bootstrap/process_manager.h"
#include "engine/bootstrap/self.h"

namespace ibcoll {
namespace {

/// What every rank gives to the host's allgather.
struct Notice {
  static constexpr uint32_t kMark = 0x6962686f;
  uint32_t mark = kMark;
  Rank rank = 0;
  int32_t size = 0;  ///< of the job
  int32_t code = 0;  ///< not 0: of the error for which the rank can't join
  char text[ProcessManager::kMaxText + 1] = {};  ///< the error's line, or rank 0's word
};

/// A host that counts more ranks than this one was told of writes past what they would fill: up to
/// so many it is told instead.
constexpr size_t kRoom = 1024;

/// What all ranks make of the same notices alike.
Status check(const std::vector<Notice>& notices, int size) {
  const auto marked = [](const Notice& notice) { return notice.mark == Notice::kMark; };
  const auto given = static_cast<size_t>(std::find_if_not(notices.begin(), notices.end(), marked) -
                                         notices.begin());
  const auto all = notices.begin() + static_cast<std::ptrdiff_t>(given);
  const auto other = std::find_if(
      notices.begin(), all, [&](const Notice& notice) { return notice.size != notices[0].size; });
  if (other != all) {
    return fail(ErrorCode::kMismatch,
                "ranks disagree on the size of the job: it has {} ranks says rank {}, {} says rank "
                "{}",
                notices[0].size, notices[0].rank, other->size, other->rank);
  }
  for (auto notice = notices.begin(); notice != all; ++notice) {
    if (notice->code != 0)
      return tl::unexpected<Error>(Error{static_cast<ErrorCode>(notice->code), notice->text});
  }
  if (given != static_cast<size_t>(size)) {
    return fail(ErrorCode::kMismatch,
                "the host's allgather is one of {} ranks, but the job shall have {}", given, size);
  }
  for (size_t i = 0; i < given; ++i) {
    if (notices[i].rank != static_cast<Rank>(i)) {
      return fail(ErrorCode::kMismatch,
                  "the host's allgather gives rank {}'s bytes where those of rank {} belong",
                  notices[i].rank, i);
    }
  }
  return {};
}

/// What can't be right whatever the others were told.
Status check_numbers(const JobHost& host) {
  if (host.size() < 1) {
    return fail(ErrorCode::kInvalidArgument, "a job of {} ranks: it needs at least one",
                host.size());
  }
  if (host.rank() < 0 || host.rank() >= host.size()) {
    return fail(ErrorCode::kInvalidArgument, "rank {} of a job of {}: its ranks are 0 to {}",
                host.rank(), host.size(), host.size() - 1);
  }
  return {};
}

class HostedManager final : public ProcessManager {
 public:
  explicit HostedManager(JobHost& host) : host_(host) {}
  std::string name() const override { return "host"; }
  Rank rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool has_told() const { return told_; }

  Result<std::string> broadcast(const std::string& text) override { return tell(0, text); }
  /// For a rank that can't join: the others are waiting for its notice. Gives what all say.
  Error call_off(const Error& error) {
    const auto told = tell(static_cast<int32_t>(error.code), error.message);
    return told ? error : told.error();
  }

 private:
  Result<std::string> tell(int32_t code, const std::string& text) {
    told_ = true;
    Notice mine;
    mine.rank = rank();
    mine.size = size();
    mine.code = code;
    text.copy(mine.text, kMaxText);
    std::vector<Notice> notices(std::max(kRoom, static_cast<size_t>(std::max(size(), 0))));
    for (Notice& notice : notices) notice.mark = 0;
    IBCOLL_TRY(host_.allgather(&mine, sizeof mine, notices.data()));
    IBCOLL_TRY(check(notices, size()));
    return std::string(notices[0].text);
  }

  JobHost& host_;
  bool told_ = false;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_hosted(JobHost& host, Result<JoinOptions> options) {
  HostedManager manager(host);
  if (const Status numbered = check_numbers(host); !numbered)
    return tl::unexpected<Error>(manager.call_off(numbered.error()));
  if (!options) return tl::unexpected<Error>(manager.call_off(options.error()));
  if (host.size() == 1) {
    IBCOLL_TRY(manager.broadcast(""));  // others may have been told of more ranks
    return self_bootstrap();
  }
  options->hosted = true;
  auto job = join_through(manager, *options);
  if (!job && !manager.has_told()) return tl::unexpected<Error>(manager.call_off(job.error()));
  return job;
}

}  // namespace ibcoll
