#include "studies/drawing/recording.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/schedule/op_kinds.h"

namespace ibcoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRecordingVersion = 1;

Json to_json(const RankRecord& record, size_t rank, int64_t zero) {
  Json ops = Json::array(), arrivals = Json::array();
  for (const RecordedOp& op : record.ops)
    ops.push_back({to_string(op.lane), op.op, op.piece, op.begin_ns - zero, op.end_ns - zero});
  for (const RecordedArrival& arrival : record.arrivals)
    arrivals.push_back({arrival.from, arrival.token ? "token" : "data", arrival.at_ns - zero});
  return {{"rank", rank},
          {"begin", record.begin_ns - zero},
          {"end", record.end_ns - zero},
          {"ops", ops},
          {"arrivals", arrivals}};
}

int64_t first_begin(const Recording& recording) {
  int64_t first = INT64_MAX;
  for (const RankRecord& rank : recording.ranks) first = std::min(first, rank.begin_ns);
  return recording.ranks.empty() ? 0 : first;
}

/// What is wrong with a line; caught in parse_recording().
struct Bad {
  std::string what;
};

/// json's own exceptions say in which field a type is wrong.
template <class T>
T number(const Json& value, const char* what, int64_t low, int64_t high) {
  if (!value.is_number_integer() || value.get<int64_t>() < low || value.get<int64_t>() > high)
    throw Bad{fmt::format("{} must be a whole number from {} to {}, not {}", what, low, high,
                          json_text(value))};
  return static_cast<T>(value.get<int64_t>());
}

int64_t time_of(const Json& value) { return number<int64_t>(value, "a time", 0, INT64_MAX / 2); }

template <class T>
T checked(Result<T> result) {
  if (!result) throw Bad{result.error().message};
  return std::move(*result);
}

Recording read_header(const Json& line) {
  if (!line.is_object() || !line.contains("recording") || line["recording"] != kRecordingVersion)
    throw Bad{fmt::format("this is not a recording of version {}", kRecordingVersion)};
  Recording recording;
  recording.collective = checked(parse_collective(line.at("collective").get<std::string>()));
  recording.algorithm = line.at("algorithm").get<std::string>();
  recording.options.pacing = checked(parse_pacing(line.at("pacing").get<std::string>()));
  recording.options.window = number<uint32_t>(line.at("window"), "'window'", 0, UINT32_MAX);
  recording.options.root = number<Rank>(line.at("root"), "'root'", 0, INT32_MAX);
  recording.options.ordered = line.at("ordered").get<bool>();
  recording.pieces = number<uint32_t>(line.at("pieces"), "'pieces'", 1, UINT32_MAX);
  const auto hash = line.at("hash").get<std::string>();
  char* end = nullptr;
  recording.hash = std::strtoull(hash.c_str(), &end, 16);
  if (hash.rfind("0x", 0) != 0 || *end != '\0') throw Bad{"'hash' must be like \"0x12ab\""};
  recording.block_bytes = number<uint64_t>(line.at("block_bytes"), "'block_bytes'", 0, INT64_MAX);
  recording.transport = line.at("transport").get<std::string>();
  recording.clock_error_ns = time_of(line.at("clock_error_ns"));
  recording.shape = checked(Shape::create(line.at("server_of").get<std::vector<int>>()));
  return recording;
}

RankRecord read_rank(const Json& line, size_t rank, int ranks) {
  if (line.at("rank") != rank) throw Bad{fmt::format("this must be rank {}'s", rank)};
  RankRecord record{time_of(line.at("begin")), time_of(line.at("end")), {}, {}};
  for (const Json& op : line.at("ops")) {
    const auto lane = std::find_if(kEveryLane.begin(), kEveryLane.end(),
                                   [&](Lane each) { return op.at(0) == to_string(each); });
    if (lane == kEveryLane.end()) throw Bad{fmt::format("unknown lane {}", json_text(op.at(0)))};
    record.ops.push_back({*lane, number<uint32_t>(op.at(1), "an operation", 0, UINT32_MAX),
                          number<uint32_t>(op.at(2), "a piece", 0, UINT32_MAX), time_of(op.at(3)),
                          time_of(op.at(4))});
  }
  for (const Json& arrival : line.at("arrivals")) {
    const bool token = arrival.at(1) == "token";
    if (!token && arrival.at(1) != "data")
      throw Bad{fmt::format("unknown kind of arrival {}", json_text(arrival.at(1)))};
    record.arrivals.push_back(
        {number<Rank>(arrival.at(0), "a sender", 0, ranks - 1), token, time_of(arrival.at(2))});
  }
  return record;
}

}  // namespace

std::string to_text(const Recording& recording) {
  std::vector<int> server_of;
  for (Rank rank = 0; rank < recording.shape.ranks(); ++rank)
    server_of.push_back(recording.shape.server_of(rank));
  const Json header{{"recording", kRecordingVersion},
                    {"collective", to_string(recording.collective)},
                    {"algorithm", recording.algorithm},
                    {"pacing", to_string(recording.options.pacing)},
                    {"window", recording.options.window},
                    {"root", recording.options.root},
                    {"ordered", recording.options.ordered},
                    {"pieces", recording.pieces},
                    {"hash", fmt::format("{:#x}", recording.hash)},
                    {"block_bytes", recording.block_bytes},
                    {"transport", recording.transport},
                    {"clock_error_ns", recording.clock_error_ns},
                    {"server_of", server_of}};
  std::string text = json_text(header) + "\n";
  const int64_t zero = first_begin(recording);
  for (size_t rank = 0; rank < recording.ranks.size(); ++rank)
    text += json_text(to_json(recording.ranks[rank], rank, zero)) + "\n";
  return text;
}

Result<Recording> parse_recording(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  size_t at = 0;
  try {
    if (lines.empty()) throw Bad{"there is nothing in it"};
    Recording recording = read_header(checked(parse_json(lines[0])));
    for (at = 1; at < lines.size(); ++at)
      recording.ranks.push_back(
          read_rank(checked(parse_json(lines[at])), at - 1, recording.shape.ranks()));
    if (recording.ranks.size() != static_cast<size_t>(recording.shape.ranks()))
      throw Bad{
          fmt::format("{} of {} ranks are there", recording.ranks.size(), recording.shape.ranks())};
    return recording;
  } catch (const Bad& bad) {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", at + 1, bad.what);
  } catch (const Json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", at + 1, error.what());
  }
}

Result<Recording> load_recording(const std::string& path) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  return of_input(path, parse_recording(text));
}

Result<std::vector<Activity>> activities_of(
    const Recording& recording, std::span<const std::shared_ptr<const RankProgram>> programs) {
  const Shape& shape = recording.shape;
  if (programs.size() != recording.ranks.size() || programs.front()->hash != recording.hash)
    return fail(ErrorCode::kInvalidArgument,
                "the recording is of another schedule, or of another version of {}",
                recording.algorithm);
  // To one receiver signals arrive in the order in which one sender posted them.
  using Route = std::tuple<Rank, Rank, bool>;
  std::map<Route, std::vector<int64_t>> arrivals;
  for (Rank to = 0; to < shape.ranks(); ++to) {
    for (const RecordedArrival& arrival : recording.ranks[to].arrivals)
      arrivals[{arrival.from, to, arrival.token}].push_back(arrival.at_ns);
  }
  const int64_t zero = first_begin(recording);
  const auto us = [zero](int64_t ns) { return static_cast<double>(ns - zero) / 1e3; };
  std::map<Route, size_t> taken;
  std::vector<Activity> activities;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    int64_t port_free = 0;
    for (const RecordedOp& done : recording.ranks[rank].ops) {
      const auto& lane = programs[rank]->lane(done.lane);
      if (done.op >= lane.size())
        return fail(ErrorCode::kInvalidArgument, "rank {} recorded operation {} of {} in lane {}",
                    rank, done.op, lane.size(), to_string(done.lane));
      const Op& op = lane[done.op];
      const bool signal = op.kind == OpKind::kSignal, put = op.kind == OpKind::kPut;
      Activity activity{rank, done.lane, done.op, 0, 0, 0};
      if ((put || signal) && !shape.same_server(rank, op.peer)) {
        const Route route{rank, op.peer, signal};
        const std::vector<int64_t>& seen = arrivals[route];
        const size_t which = taken[route]++;
        if (which >= seen.size())
          return fail(ErrorCode::kInvalidArgument,
                      "rank {} posted {} {} to rank {}, which saw {} come", rank, which + 1,
                      signal ? "tokens" : "messages", op.peer, seen.size());
        // Clocks of two machines may be off by more than a message takes.
        const int64_t posted = done.end_ns, arrival = std::max(seen[which], posted);
        activity.arrival = us(arrival);
        activity.begin = signal ? us(posted) : us(std::min(std::max(posted, port_free), arrival));
        activity.end = signal ? activity.begin : activity.arrival;
        if (put) port_free = std::max(port_free, arrival);
      } else if (copies(op)) {
        activity.begin = us(done.begin_ns);
        activity.end = activity.arrival = us(done.end_ns);
      } else {
        continue;
      }
      activities.push_back(activity);
    }
  }
  return activities;
}

}  // namespace ibcoll
