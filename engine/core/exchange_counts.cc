#include "engine/core/exchange_counts.h"

#include "engine/core/inner_call.h"

namespace ibcoll {
namespace {

constexpr int64_t kUnknown = -1;

Status run(Group& group, CallPurpose purpose, Collective collective, Rank root, const void* send,
           void* recv, size_t block_bytes) {
  CallArguments arguments;
  arguments.collective = collective;
  arguments.purpose = purpose;
  arguments.root = root;
  arguments.send = send;
  arguments.recv = recv;
  arguments.block_bytes = block_bytes;
  return make_inner_call(group, arguments);
}

/// `own` and `other` are what this rank and a peer count; ends the job where they can't agree.
/// `direction`: of the bytes, seen from here, "to" or "from" the peer.
Status settle(Group& group, Rank peer, int64_t& own, int64_t other, const char* direction) {
  if (own == kUnknown) own = other;
  if (own != kUnknown && (other == kUnknown || other == own)) return {};
  const Rank me = group.rank_in_job(), culprit = group.state().to_job[peer];
  const std::string text =
      own == kUnknown ? fmt::format("neither rank {} nor rank {} knows what is sent {} rank {}", me,
                                    culprit, direction, culprit)
                      : fmt::format("rank {} counts {} bytes {} rank {}, which counts {}", me, own,
                                    direction, culprit, other);
  group.services().executor.abort({culprit, ErrorCode::kMismatch, text});
  return fail(ErrorCode::kMismatch, "{}", text);
}

}  // namespace

Status exchange_counts(Group& group, int64_t* send_counts, int64_t* recv_counts) {
  struct Pair {
    int64_t sends, expects;  ///< what the one rank sends to the other, and what it expects from it
  };
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<Pair> mine(ranks), theirs(ranks);
  for (size_t i = 0; i < ranks; ++i) {
    if (send_counts[i] < kUnknown || recv_counts[i] < kUnknown) {
      return fail(ErrorCode::kInvalidArgument, "count {} or {} of rank {} is negative",
                  send_counts[i], recv_counts[i], i);
    }
    mine[i] = {send_counts[i], recv_counts[i]};
  }
  IBCOLL_TRY(run(group, CallPurpose::kCounts, Collective::kAlltoall, 0, mine.data(), theirs.data(),
                 sizeof(Pair)));
  for (size_t i = 0; i < ranks; ++i) {
    const auto peer = static_cast<Rank>(i);
    IBCOLL_TRY(settle(group, peer, send_counts[i], theirs[i].expects, "to"));
    IBCOLL_TRY(settle(group, peer, recv_counts[i], theirs[i].sends, "from"));
  }
  return {};
}

Status exchange_root_counts(Group& group, int64_t* own_count, int64_t* counts, Rank root) {
  if (root < 0 || root >= group.size()) {
    return fail(ErrorCode::kInvalidArgument, "root {}: the group's ranks are 0 to {}", root,
                group.size() - 1);
  }
  const bool is_root = group.rank() == root;
  if (is_root && counts == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the counts are null at the root");
  }
  const auto ranks = static_cast<size_t>(is_root ? group.size() : 0);
  for (size_t i = 0; i < ranks; ++i) {
    if (counts[i] < kUnknown) {
      return fail(ErrorCode::kInvalidArgument, "count {} of rank {} is negative", counts[i], i);
    }
  }
  if (*own_count < kUnknown) {
    return fail(ErrorCode::kInvalidArgument, "the count {} is negative", *own_count);
  }
  std::vector<int64_t> theirs(ranks);
  IBCOLL_TRY(run(group, CallPurpose::kRootCounts, Collective::kGather, root, own_count,
                 theirs.data(), sizeof(int64_t)));
  for (size_t i = 0; i < ranks; ++i) {
    IBCOLL_TRY(settle(group, static_cast<Rank>(i), counts[i], theirs[i], "from or to"));
  }
  return run(group, CallPurpose::kRootCounts, Collective::kScatter, root, counts, own_count,
             sizeof(int64_t));
}

}  // namespace ibcoll
