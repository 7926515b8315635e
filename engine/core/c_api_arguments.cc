#include "engine/core/c_api_arguments.h"

#include "engine/core/c_api.h"
#include "engine/core/c_api_structs.h"

namespace ibcoll::c_api {
namespace {

Status take_options(const ibcoll_options* given, CallArguments& arguments) {
  if (given == nullptr) return {};
  ibcoll_options copy;
  IBCOLL_ASSIGN(const ibcoll_options* options, of_this_version("ibcoll_options", given, copy));
  CallOptions& result = arguments.options;
  if (options->algorithm != nullptr) result.algorithm = options->algorithm;
  if (options->pacing != nullptr && std::string_view(options->pacing) != "auto") {
    IBCOLL_ASSIGN(result.pacing, parse_pacing(options->pacing));
  }
  if (options->pieces < 0 || options->pieces > 4096) {
    return fail(ErrorCode::kInvalidArgument, "pieces must be 0 to 4096, not {}", options->pieces);
  }
  result.pieces = static_cast<uint32_t>(options->pieces);
  IBCOLL_ASSIGN(result.ordered, flag("ordered", options->ordered));
  constexpr int64_t kLongestUs = int64_t{1} << 53;  // nanoseconds stay in 63 bits
  if (options->deadline_us < 0 || options->deadline_us > kLongestUs) {
    return fail(ErrorCode::kInvalidArgument, "deadline_us must be 0 to 2^53, not {}",
                options->deadline_us);
  }
  arguments.time_limit_ns = options->deadline_us * 1000;
  arguments.send_limit = options->send_bytes;
  arguments.recv_limit = options->recv_bytes;
  return {};
}

/// What the call combines by.
Result<Reduction> reduction_of(const ibcoll_call& call, const OwnOperators& own,
                               CallArguments& arguments) {
  static_assert(IBCOLL_OWN == kElementTypes && IBCOLL_NO_OP + 1 == kOperators);
  const int type = number_of(call.type), op = number_of(call.op);
  if (type < 0 || type > kElementTypes) {
    return fail(ErrorCode::kInvalidArgument, "there is no element type {}: they are 0 to {}", type,
                kElementTypes);
  }
  if (op >= OwnOperators::kFirst) {
    IBCOLL_ASSIGN(const std::shared_ptr<OwnOperator> found, own.find(op));
    arguments.keeps = found;
    return found->on(static_cast<ElementType>(type));
  }
  if (op < 0 || op >= kOperators) {
    return fail(ErrorCode::kInvalidArgument, "there is no operator {}: they are 0 to {}", op,
                kOperators - 1);
  }
  return find_reduction(static_cast<ElementType>(type), static_cast<Operator>(op));
}

Status take_reduction(const ibcoll_call& call, const OwnOperators& own, CallArguments& arguments) {
  IBCOLL_ASSIGN(arguments.reduction, reduction_of(call, own, arguments));
  constexpr size_t kMostBytes = size_t{1} << 62;
  if (call.elements > kMostBytes / arguments.reduction.element_bytes) {
    return fail(ErrorCode::kInvalidArgument, "{} elements of {} bytes are more than 2^62 bytes",
                call.elements, arguments.reduction.element_bytes);
  }
  if (!is_unequal(arguments.collective))
    arguments.block_bytes = call.elements * arguments.reduction.element_bytes;
  return {};
}

/// The buffers, and what stands in the place of one.
Status take_buffers(const ibcoll_call& call, CallArguments& arguments) {
  const CollectiveTraits& row = traits(arguments.collective);
  if (!row.moves_data) return {};
  const void* send = row.in_place == InPlace::kOneBuffer ? call.recv : call.send;
  arguments.in_place = send == IBCOLL_IN_PLACE || call.recv == IBCOLL_IN_PLACE;
  arguments.send = send == IBCOLL_IN_PLACE ? nullptr : send;
  arguments.recv = call.recv == IBCOLL_IN_PLACE ? nullptr : call.recv;
  if (!arguments.in_place) return {};
  const bool keeps = row.in_place == InPlace::kSend;
  if (keeps == (call.recv == IBCOLL_IN_PLACE)) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: IBCOLL_IN_PLACE stands for the {} buffer", row.name,
              keeps ? "receive" : "send");
}

Status take_graph(const ibcoll_call& call, CallArguments& arguments) {
  if (!is_live(call.graph)) {
    return fail(ErrorCode::kInvalidArgument, "{}: the graph {}", to_string(arguments.collective),
                call.graph == nullptr ? "is null" : "was freed, or is none");
  }
  arguments.options.graph = call.graph->graph;
  return {};
}

Status take(const ibcoll_call& call, const OwnOperators& own, CallArguments& arguments) {
  constexpr int kLast = static_cast<int>(kCollectiveTraits.size()) - 1;
  const int collective = number_of(call.collective);
  if (collective < 0 || collective > kLast) {
    return fail(ErrorCode::kInvalidArgument, "there is no collective {}: they are 0 to {}",
                collective, kLast);
  }
  const CollectiveTraits& row = kCollectiveTraits[static_cast<size_t>(collective)];
  arguments.collective = row.collective;
  arguments.root = call.root;
  arguments.send_counts = call.send_counts;
  arguments.send_displacements = call.send_displacements;
  arguments.recv_counts = call.recv_counts;
  arguments.recv_displacements = call.recv_displacements;
  arguments.own_count = call.own_count;
  arguments.send_blocks = row.in_place == InPlace::kOneBuffer ? call.recv_blocks : call.send_blocks;
  arguments.recv_blocks = call.recv_blocks;
  if (row.reduces) {
    IBCOLL_TRY(take_reduction(call, own, arguments));
  } else if (row.moves_data && !row.unequal) {
    arguments.block_bytes = call.bytes;
  }
  if (row.has_graph) IBCOLL_TRY(take_graph(call, arguments));
  IBCOLL_TRY(take_buffers(call, arguments));
  return take_options(call.options, arguments);
}

}  // namespace

Result<CallArguments> arguments_of(const ibcoll_call& call, const OwnOperators& own) {
  // Filled in where the caller gets it: a copy takes a tenth of a small call.
  Result<CallArguments> result;
  if (const Status taken = take(call, own, *result); !taken) {
    result = tl::unexpected<Error>(taken.error());
  }
  return result;
}

}  // namespace ibcoll::c_api
