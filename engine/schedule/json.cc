#include "engine/schedule/json.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kScheduleVersion = 1;

Json op_to_json(const Op& op) {
  const OpMeaning& means = meaning(op.kind);
  Json object{{"op", means.name}};
  if (means.peer != OpMeaning::Peer::kNone) object["peer"] = op.peer;
  if (op.to_server) object["to_server"] = true;
  if (means.reads) object["src"] = {to_string(op.src_buffer), op.src_first, op.count};
  if (means.writes != OpMeaning::Writes::kNone) {
    object["dst"] = {to_string(op.dst_buffer), op.dst_first, op.count};
  }
  if (op.ordered) object["ordered"] = true;
  if (op.before) object["before"] = true;
  if (op.combines) object["combines"] = true;
  if (op.exposure != 0) object["exposure"] = op.exposure;
  if (op.threshold != 0) object["threshold"] = op.threshold;
  if (op.relaxed != Op::Relaxed::kNo) {
    object["relaxed"] = op.relaxed == Op::Relaxed::kFirstOfRun ? "first" : "in";
  }
  if (op.step != 0) object["step"] = op.step;
  if (op.after != decltype(op.after){}) object["after"] = op.after;
  return object;
}

/// Reads one line, and says where in it things go wrong.
class LineReader {
 public:
  explicit LineReader(std::string where) : where_(std::move(where)) {}

  template <class... Args>
  tl::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInvalidArgument, "{}: {}", where_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<Json> parse(std::string_view line) const {
    auto object = parse_json(line);
    if (!object) return bad("{}", object.error().message);
    if (!object->is_object()) return bad("is not a JSON object");
    return object;
  }

  Result<int64_t> integer(const Json& value, std::string_view what, int64_t low,
                          int64_t high) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) ||
        value.get<int64_t>() < low || value.get<int64_t>() > high) {
      return bad("{} must be a whole number from {} to {}, not {}", what, low, high,
                 json_text(value));
    }
    return value.get<int64_t>();
  }

  Result<std::string> text(const Json& object, const char* key) const {
    const auto field = object.find(key);
    if (field == object.end()) return bad("'{}' is missing", key);
    if (!field->is_string()) return bad("'{}' must be a string, not {}", key, json_text(*field));
    return field->get<std::string>();
  }

  /// The array `key`, of `size` elements unless 0; an empty one where it is missing.
  Result<Json> array(const Json& object, const char* key, size_t size = 0) const {
    const auto field = object.find(key);
    if (field == object.end()) return Json::array();
    if (!field->is_array() || (size != 0 && field->size() != size)) {
      return bad("'{}' must be an array{}", key, size ? fmt::format(" of {}", size) : "");
    }
    return *field;
  }

  Status only(const Json& object, std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) return bad("unknown '{}'", key);
    }
    return {};
  }

  Result<Lane> lane(const Json& value) const {
    for (const Lane lane : kEveryLane) {
      if (value == to_string(lane)) return lane;
    }
    return bad("unknown lane {}: one of send, recv, local", json_text(value));
  }

  Result<Slice> slice(const Json& object, const char* key) const {
    IBCOLL_ASSIGN(const Json fields, array(object, key, 3));
    if (fields.empty()) return Slice{};
    IBCOLL_ASSIGN(const int64_t first, integer(fields[1], "a slot", 0, UINT32_MAX));
    IBCOLL_ASSIGN(const int64_t count, integer(fields[2], "a number of slots", 1, UINT32_MAX));
    for (const Buffer buffer : {Buffer::kNone, Buffer::kSend, Buffer::kRecv, Buffer::kScratch}) {
      if (fields[0] != to_string(buffer)) continue;
      return Slice{buffer, static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
    }
    return bad("unknown buffer {}: one of send, recv, scratch", json_text(fields[0]));
  }

  Result<Op> op(const Json& object, Lane lane) const;
  Result<RankProgram> program(const Json& object) const;
  Result<Graph::Neighbours> neighbours(const Json& object) const;

 private:
  std::string where_;
};

Result<Op> LineReader::op(const Json& object, Lane lane) const {
  if (!object.is_object()) return bad("is not a JSON object");
  IBCOLL_TRY(only(object, {"op", "peer", "to_server", "src", "dst", "ordered", "before", "combines",
                           "exposure", "threshold", "relaxed", "step", "after"}));
  IBCOLL_ASSIGN(const std::string kind, text(object, "op"));
  Op op;
  op.lane = lane;
  const auto means = std::find_if(kOpMeanings.begin(), kOpMeanings.end(),
                                  [&](const OpMeaning& each) { return kind == each.name; });
  if (means == kOpMeanings.end()) return bad("unknown operation '{}'", kind);
  op.kind = means->kind;
  const bool has_peer = means->peer != OpMeaning::Peer::kNone;
  const bool writes = means->writes != OpMeaning::Writes::kNone;
  IBCOLL_ASSIGN(const Slice src, slice(object, "src"));
  IBCOLL_ASSIGN(const Slice dst, slice(object, "dst"));
  const std::tuple<const char*, bool, bool> needs[] = {{"peer", has_peer, object.contains("peer")},
                                                       {"src", means->reads, src.count > 0},
                                                       {"dst", writes, dst.count > 0}};
  for (const auto& [key, needed, there] : needs) {
    if (there != needed) return bad("{} {} '{}'", kind, needed ? "needs" : "has no", key);
  }
  if (has_peer) {
    IBCOLL_ASSIGN(op.peer, integer(object["peer"], "'peer'", 0, INT32_MAX));
  }
  if (means->reads && src.count != dst.count) {
    return bad("'src' has {} slots, 'dst' {}", src.count, dst.count);
  }
  op.src_buffer = src.buffer;
  op.src_first = src.first;
  op.dst_buffer = dst.buffer;
  op.dst_first = dst.first;
  op.count = dst.count;
  const auto flag = [&](const char* key) -> Result<bool> {
    if (!object.contains(key)) return false;
    if (!object[key].is_boolean()) return bad("'{}' must be true or false", key);
    return object[key].get<bool>();
  };
  IBCOLL_ASSIGN(op.to_server, flag("to_server"));
  IBCOLL_ASSIGN(op.ordered, flag("ordered"));
  IBCOLL_ASSIGN(op.before, flag("before"));
  IBCOLL_ASSIGN(op.combines, flag("combines"));
  if (object.contains("relaxed")) {
    if (object["relaxed"] != "first" && object["relaxed"] != "in") {
      return bad("'relaxed' must be \"first\" or \"in\", not {}", json_text(object["relaxed"]));
    }
    op.relaxed = object["relaxed"] == "first" ? Op::Relaxed::kFirstOfRun : Op::Relaxed::kInRun;
  }
  if (object.contains("exposure")) {
    IBCOLL_ASSIGN(op.exposure, integer(object["exposure"], "'exposure'", 0, 255));
  }
  if (object.contains("threshold")) {
    IBCOLL_ASSIGN(op.threshold, integer(object["threshold"], "'threshold'", 0, UINT32_MAX));
  }
  if (object.contains("step")) {
    IBCOLL_ASSIGN(op.step, integer(object["step"], "'step'", 0, UINT32_MAX - 1));
  }
  IBCOLL_ASSIGN(const Json after, array(object, "after", kLanes));
  for (size_t i = 0; i < after.size(); ++i) {
    IBCOLL_ASSIGN(op.after[i], integer(after[i], "'after'", 0, UINT32_MAX));
  }
  return op;
}

Result<RankProgram> LineReader::program(const Json& object) const {
  IBCOLL_TRY(only(object, {"rank", "steps", "cut", "sources", "destinations", "scratch", "streams",
                           "send", "recv", "local"}));
  RankProgram program;
  if (!object.contains("rank") || !object.contains("steps")) {
    return bad("'rank' or 'steps' is missing");
  }
  IBCOLL_ASSIGN(program.me, integer(object["rank"], "'rank'", 0, INT32_MAX));
  IBCOLL_ASSIGN(program.steps, integer(object["steps"], "'steps'", 0, UINT32_MAX));
  if (object.contains("cut")) {
    IBCOLL_ASSIGN(program.cut, integer(object["cut"], "'cut'", 1, kMaxCut));
  }
  IBCOLL_ASSIGN(const Json scratch, array(object, "scratch"));
  for (const Json& block : scratch) {
    if (!block.is_array() || block.size() != 2) return bad("a block is [origin, target]");
    Block& slot = program.scratch.edit().emplace_back();
    IBCOLL_ASSIGN(slot.origin, integer(block[0], "a block's origin", Block::kCombined, INT32_MAX));
    IBCOLL_ASSIGN(slot.target, integer(block[1], "a block's target",
                                       Block::kFirstPart - int64_t{kMaxCut}, INT32_MAX));
  }
  IBCOLL_ASSIGN(const Json streams, array(object, "streams"));
  std::vector<size_t> in_strands;
  for (const Json& fields : streams) {
    if (!fields.is_array() || fields.size() < 3 || fields.size() > 4) {
      return bad("a stream is [lane, first operation, operations] or one more");
    }
    Stream& stream = program.streams.edit().emplace_back();
    IBCOLL_ASSIGN(stream.lane, lane(fields[0]));
    IBCOLL_ASSIGN(stream.first, integer(fields[1], "a stream's begin", 0, UINT32_MAX));
    IBCOLL_ASSIGN(stream.count, integer(fields[2], "a stream's length", 1, UINT32_MAX));
    if (fields.size() == 3) continue;
    if (fields[3] != "strands" && fields[3] != "once")
      return bad("what follows a stream is \"strands\" or \"once\"");
    stream.once = fields[3] == "once";
    in_strands.push_back(program.streams.size() - 1);
  }
  for (const Lane lane : kEveryLane) {
    IBCOLL_ASSIGN(const Json ops, array(object, to_string(lane)));
    std::vector<Op>& place = program.lanes[static_cast<int>(lane)].edit();
    for (size_t i = 0; i < ops.size(); ++i) {
      const LineReader reader(fmt::format("{}, lane {}, op {}", where_, to_string(lane), i));
      IBCOLL_ASSIGN(place.emplace_back(), reader.op(ops[i], lane));
    }
  }
  for (const size_t which : in_strands) {
    Stream& stream = program.streams.edit()[which];
    const auto& ops = program.lane(stream.lane);
    const bool fits = uint64_t{stream.first} + stream.count <= ops.size();
    auto strands = fits ? divide_by_peer(stream, ops) : std::optional<Strands>();
    if (!strands) return bad("a stream in strands is not of puts to several ranks");
    stream.strands = static_cast<uint32_t>(program.strands.size());
    program.strands.push_back(std::move(*strands));
  }
  return program;
}

Result<Graph::Neighbours> LineReader::neighbours(const Json& object) const {
  Graph::Neighbours lists;
  const auto read = [&](const char* key, std::vector<Rank>& peers) -> Status {
    IBCOLL_ASSIGN(const Json ranks, array(object, key));
    for (const Json& rank : ranks) {
      IBCOLL_ASSIGN(peers.emplace_back(), integer(rank, "a neighbour", 0, INT32_MAX));
    }
    return {};
  };
  IBCOLL_TRY(read("sources", lists.sources));
  IBCOLL_TRY(read("destinations", lists.destinations));
  return lists;
}

Result<LoadedSchedule> read_header(const LineReader& reader, std::string_view line,
                                   RankProgram& common) {
  IBCOLL_ASSIGN(const Json header, reader.parse(line));
  if (!header.contains("schedule")) return reader.bad("is no schedule: 'schedule' is missing");
  IBCOLL_TRY(
      reader.only(header, {"schedule", "collective", "algorithm", "root", "hash", "server_of"}));
  IBCOLL_TRY(reader.integer(header["schedule"], "the version 'schedule'", kScheduleVersion,
                            kScheduleVersion));
  IBCOLL_ASSIGN(const std::string collective, reader.text(header, "collective"));
  const auto parsed = parse_collective(collective);
  if (!parsed) return reader.bad("{}", parsed.error().message);
  common.collective = *parsed;
  IBCOLL_ASSIGN(common.algorithm, reader.text(header, "algorithm"));
  if (has_root(common.collective)) {
    if (!header.contains("root")) return reader.bad("'root' is missing");
    IBCOLL_ASSIGN(common.root, reader.integer(header["root"], "'root'", 0, INT32_MAX));
  }
  IBCOLL_ASSIGN(const std::string hash, reader.text(header, "hash"));
  const char* end = hash.data() + hash.size();
  if (!hash.starts_with("0x") || hash.size() < 3 ||
      std::from_chars(hash.data() + 2, end, common.hash, 16).ptr != end) {
    return reader.bad("'hash' must be a string like \"0x12ab\", not \"{}\"", hash);
  }
  IBCOLL_ASSIGN(const Json servers, reader.array(header, "server_of"));
  std::vector<int> server_of;
  for (const Json& server : servers) {
    IBCOLL_ASSIGN(server_of.emplace_back(), reader.integer(server, "a server", 0, INT32_MAX));
  }
  auto shape = Shape::create(server_of);
  if (!shape) return reader.bad("'server_of': {}", shape.error().message);
  return LoadedSchedule{std::move(*shape), {}, {}};
}

}  // namespace

Json schedule_header_to_json(const Shape& shape, const RankProgram& any) {
  std::vector<int> server_of;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) server_of.push_back(shape.server_of(rank));
  Json header{{"schedule", kScheduleVersion},
              {"collective", to_string(any.collective)},
              {"algorithm", any.algorithm}};
  if (has_root(any.collective)) header["root"] = any.root;
  header["hash"] = fmt::format("{:#018x}", any.hash);
  header["server_of"] = server_of;
  return header;
}

Json program_to_json(const RankProgram& program) {
  Json object{{"rank", program.me}, {"steps", program.steps}};
  if (program.cut != 1) object["cut"] = program.cut;
  if (program.graph != nullptr) {
    const auto write = [&](const char* key, std::span<const Rank> peers) {
      if (!peers.empty()) object[key] = std::vector<Rank>(peers.begin(), peers.end());
    };
    write("sources", program.graph->sources(program.me));
    write("destinations", program.graph->destinations(program.me));
  }
  for (const Block& block : program.scratch) {
    object["scratch"].push_back({block.origin, block.target});
  }
  for (const Stream& stream : program.streams) {
    Json fields{to_string(stream.lane), stream.first, stream.count};
    if (stream.in_strands()) fields.push_back(stream.once ? "once" : "strands");
    object["streams"].push_back(std::move(fields));
  }
  for (const Lane lane : kEveryLane) {
    object[to_string(lane)] = Json::array();
    for (const Op& op : program.lane(lane)) object[to_string(lane)].push_back(op_to_json(op));
  }
  return object;
}

Result<LoadedSchedule> read_schedule(std::string_view text) {
  const std::vector<std::string_view> lines = split(text, '\n');
  RankProgram common;
  IBCOLL_ASSIGN(LoadedSchedule schedule,
                read_header(LineReader("line 1"), lines.empty() ? "" : lines.front(), common));
  std::vector<RankProgram> programs;
  std::vector<Graph::Neighbours> neighbours;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const LineReader reader(fmt::format("line {}", i + 1));
    IBCOLL_ASSIGN(const Json object, reader.parse(lines[i]));
    RankProgram& program = programs.emplace_back();
    IBCOLL_ASSIGN(program, reader.program(object));
    program.collective = common.collective;
    program.algorithm = common.algorithm;
    program.root = common.root;
    program.hash = common.hash;
    IBCOLL_ASSIGN(neighbours.emplace_back(), reader.neighbours(object));
  }
  std::shared_ptr<const Graph> graph;
  // How many programs there are is for the verifier to say.
  if (has_graph(common.collective) &&
      neighbours.size() == static_cast<size_t>(schedule.shape.ranks())) {
    IBCOLL_ASSIGN(graph, Graph::create(schedule.shape, neighbours));
  }
  for (RankProgram& program : programs) {
    program.graph = graph;
    schedule.programs.push_back(std::make_shared<const RankProgram>(std::move(program)));
  }
  return schedule;
}

Result<LoadedSchedule> parse_schedule(std::string_view text) {
  IBCOLL_ASSIGN(LoadedSchedule schedule, read_schedule(text));
  IBCOLL_ASSIGN(schedule.report, verify(schedule.shape, schedule.programs));
  return schedule;
}

Result<LoadedSchedule> load_schedule(const std::string& path) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  return of_input(path, parse_schedule(text));
}

}  // namespace ibcoll
