#include "tools/ib_sched/convert.h"

#include "engine/base/input.h"
#include "engine/base/json_lines.h"
#include "engine/base/units.h"
#include "engine/schedule/layout.h"
#include "studies/formats/export.h"
#include "studies/formats/msccl_import.h"

namespace ibcoll::tools {
namespace {

Status check_format(const std::string& format) {
  if (format == "msccl-xml") return {};
  return fail(ErrorCode::kInvalidArgument, "unknown format '{}': there is msccl-xml", format);
}

}  // namespace

Result<LoadedSchedule> import_schedule(const ConvertArguments& arguments, const std::string& layout,
                                       std::optional<int64_t> ranks, std::optional<int64_t> servers,
                                       const std::string& placement) {
  IBCOLL_TRY(check_format(arguments.format));
  IBCOLL_ASSIGN(const Placement placed, parse_placement(placement));
  if (arguments.root < 0 || arguments.root > INT32_MAX)
    return fail(ErrorCode::kInvalidArgument, "root {}: must be a rank", arguments.root);
  formats::ImportOptions options{arguments.name, static_cast<Rank>(arguments.root)};
  if (!arguments.collective.empty()) {
    IBCOLL_ASSIGN(options.collective, parse_collective(arguments.collective));
  }
  IBCOLL_ASSIGN(const std::string text, read_input(arguments.file));
  IBCOLL_ASSIGN(const formats::MscclProgram program,
                of_input(arguments.file, formats::parse_msccl(text)));
  const auto gpus = static_cast<int64_t>(program.gpus.size());
  IBCOLL_ASSIGN(
      const Shape shape,
      shape_from_options(layout, layout.empty() ? ranks.value_or(gpus) : ranks, servers, placed));
  if (shape.ranks() != gpus) {
    return fail(ErrorCode::kInvalidArgument, "{}: the program is of {} ranks, the layout of {}",
                arguments.file, gpus, shape.ranks());
  }
  return of_input(arguments.file, formats::import_msccl(program, shape, options));
}

Status export_schedule(const ConvertArguments& arguments, const LoadedSchedule& schedule) {
  IBCOLL_TRY(check_format(arguments.format));
  if (arguments.goal) {
    IBCOLL_ASSIGN(const int64_t bytes, parse_size(arguments.size));
    IBCOLL_ASSIGN(const std::string text,
                  formats::export_goal(schedule, static_cast<uint64_t>(bytes)));
    return write_file(arguments.output, text);
  }
  IBCOLL_ASSIGN(const formats::MscclProgram program, formats::export_msccl(schedule));
  // What is written must hold there, too.
  const auto proof = formats::import_msccl(program, schedule.shape, {});
  if (!proof) return fail(proof.error().code, "as MSCCL has it: {}", proof.error().message);
  return write_file(arguments.output, formats::to_text(program));
}

}  // namespace ibcoll::tools
