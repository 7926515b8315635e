#include "engine/core/c_api_arguments.h"

namespace ibcoll::c_api {
namespace {

Result<CallOptions> call_options(const ibcoll_options* options) {
  CallOptions result;
  if (options == nullptr) return result;
  if (options->algorithm != nullptr) result.algorithm = options->algorithm;
  if (options->pacing != nullptr && std::string_view(options->pacing) != "auto") {
    IBCOLL_ASSIGN(result.pacing, parse_pacing(options->pacing));
  }
  if (options->pieces < 0 || options->pieces > 4096) {
    return fail(ErrorCode::kInvalidArgument, "pieces must be 0 to 4096, not {}", options->pieces);
  }
  result.pieces = static_cast<uint32_t>(options->pieces);
  result.ordered = options->ordered != 0;
  return result;
}

Status apply(const ibcoll_options* options, CallArguments& arguments) {
  if (options == nullptr) return {};
  IBCOLL_ASSIGN(arguments.options, call_options(options));
  arguments.send_limit = options->send_bytes;
  arguments.recv_limit = options->recv_bytes;
  return {};
}

}  // namespace

Result<CallArguments> arguments_of(Collective collective, const void* send, void* recv,
                                   size_t block_bytes, const ibcoll_options* options, int root) {
  // Filled in where the caller gets it: a copy takes a tenth of a small call.
  Result<CallArguments> result;
  CallArguments& arguments = *result;
  arguments.collective = collective;
  arguments.root = root;
  arguments.in_place = send == IBCOLL_IN_PLACE || recv == IBCOLL_IN_PLACE;
  arguments.send = send == IBCOLL_IN_PLACE ? nullptr : send;
  arguments.recv = recv == IBCOLL_IN_PLACE ? nullptr : recv;
  arguments.block_bytes = block_bytes;
  const bool scatters = collective == Collective::kScatter || collective == Collective::kScatterv;
  if (arguments.in_place && scatters != (recv == IBCOLL_IN_PLACE)) {
    result = fail(ErrorCode::kInvalidArgument, "{}: IBCOLL_IN_PLACE stands for the {} buffer",
                  to_string(collective), scatters ? "receive" : "send");
  } else if (const Status applied = apply(options, arguments); !applied) {
    result = tl::unexpected<Error>(applied.error());
  }
  return result;
}

Result<CallArguments> arguments_v(const void* send, const int64_t* send_counts,
                                  const int64_t* send_displacements, void* recv,
                                  const int64_t* recv_counts, const int64_t* recv_displacements,
                                  const ibcoll_options* options) {
  IBCOLL_ASSIGN(CallArguments arguments,
                arguments_of(Collective::kAlltoallv, send, recv, 0, options, 0));
  arguments.send_counts = send_counts;
  arguments.send_displacements = send_displacements;
  arguments.recv_counts = recv_counts;
  arguments.recv_displacements = recv_displacements;
  return arguments;
}

Result<CallArguments> arguments_gatherv(Collective collective, const void* send, int64_t send_count,
                                        void* recv, const int64_t* recv_counts,
                                        const int64_t* recv_displacements, int root,
                                        const ibcoll_options* options) {
  IBCOLL_ASSIGN(CallArguments arguments, arguments_of(collective, send, recv, 0, options, root));
  arguments.own_count = send_count;
  arguments.recv_counts = recv_counts;
  arguments.recv_displacements = recv_displacements;
  return arguments;
}

Result<CallArguments> arguments_scatterv(const void* send, const int64_t* send_counts,
                                         const int64_t* send_displacements, void* recv,
                                         int64_t recv_count, int root,
                                         const ibcoll_options* options) {
  IBCOLL_ASSIGN(CallArguments arguments,
                arguments_of(Collective::kScatterv, send, recv, 0, options, root));
  arguments.own_count = recv_count;
  arguments.send_counts = send_counts;
  arguments.send_displacements = send_displacements;
  return arguments;
}

Result<CallArguments> arguments_reduce(const void* send, void* recv, size_t elements,
                                       ibcoll_type type, ibcoll_operator op, int root,
                                       const ibcoll_options* options) {
  static_assert(IBCOLL_DOUBLE + 1 == kElementTypes && IBCOLL_BXOR + 1 == kOperators);
  IBCOLL_ASSIGN(const Reduction reduction,
                find_reduction(static_cast<ElementType>(type), static_cast<Operator>(op)));
  if (elements > (size_t{1} << 58)) {
    return fail(ErrorCode::kInvalidArgument, "{} elements are more than 2^58", elements);
  }
  IBCOLL_ASSIGN(CallArguments arguments,
                arguments_of(Collective::kReduce, send, recv, elements * reduction.element_bytes,
                             options, root));
  arguments.reduction = reduction;
  return arguments;
}

}  // namespace ibcoll::c_api
