#include "tools/ib_tune/tune_report.h"

#include "engine/base/output.h"
#include "engine/base/units.h"

namespace ibcoll::tools {
namespace {

using measure::TunePoint;

constexpr const char* kRow = "{:<12} {:>6}  {:<32} {:>10}  {:<32} {:>10} {:>7} {:>6} {:>6}\n";

std::string us(double time) { return fmt::format("{:.2f}", time); }

}  // namespace

void TuneReport::begin() {
  if (json_.to_stdout()) return;
  print("{} ranks as {}, {}{}\n", setting_.ranks, setting_.job.layout,
        setting_.simulated ? "simulated" : setting_.job.transport,
        setting_.note.empty() ? "" : "; " + setting_.note);
  if (setting_.judges)
    print(kRow, "collective", "bytes", "rules", "us", "fastest", "us", "regret", "surely",
          "rounds");
  else
    print(kRow, "collective", "bytes", "own choice", "us", "choice", "us", "of own", "tried",
          "rounds");
  (void)flush_output();  // told at the end
}

void TuneReport::point(const TunePoint& point) {
  line_.clear();
  const auto name = [&](size_t which) { return point.contenders[which].describe(); };
  nlohmann::ordered_json line = {{"kind", "point"},
                                 {"collective", to_string(point.collective)},
                                 {"bytes_per_pair", point.bytes},
                                 {"ranks", setting_.ranks},
                                 {"servers", setting_.servers},
                                 {"layout", setting_.job.layout},
                                 {"transport", setting_.job.transport},
                                 {"simulated", setting_.simulated},
                                 {"own", name(0)},
                                 {"own_us", point.own_us},
                                 {"choice", name(point.choice)},
                                 {"choice_us", point.choice_us},
                                 {"ratio", point.score[point.choice]},
                                 {"fastest", name(point.fastest)},
                                 {"fastest_us", point.fastest_us},
                                 {"contenders", point.contenders.size()},
                                 {"rounds", point.rounds}};
  const std::string collective = to_string(point.collective), bytes = format_size(point.bytes);
  if (setting_.judges) {
    line["judged"] = name(point.judged);
    line["judged_us"] = point.judged_us;
    line["regret"] = point.regret;
    line["sure_regret"] = point.sure_regret;
    line["within"] = measure::is_near(point);
  }
  json_.write(line);
  if (json_.to_stdout()) return;
  if (setting_.judges)
    print(kRow, collective, bytes, name(point.judged), us(point.judged_us), name(point.fastest),
          us(point.fastest_us), us(point.regret), us(point.sure_regret), point.rounds);
  else
    print(kRow, collective, bytes, name(0), us(point.own_us),
          point.choice == 0 ? "the same" : name(point.choice), us(point.choice_us),
          us(point.score[point.choice]), point.contenders.size(), point.rounds);
  (void)flush_output();
}

void TuneReport::judged(const measure::Judgement& judgement) {
  line_.clear();
  const double share = judgement.points == 0 ? 1
                                             : static_cast<double>(judgement.within) /
                                                   static_cast<double>(judgement.points);
  json_.write({{"kind", "summary"},
               {"points", judgement.points},
               {"within", judgement.within},
               {"share", share},
               {"worst", judgement.worst},
               {"worst_at", judgement.worst_at}});
  if (json_.to_stdout()) return;
  print(
      "{} of {} choices ({:.0f} %) within 5 % of the fastest or of what rounds differ; worst: "
      "{:.2f} "
      "times its time{}{}\n",
      judgement.within, judgement.points, 100 * share, judgement.worst,
      judgement.worst_at.empty() ? "" : ", ", judgement.worst_at);
}

void TuneReport::written(size_t points, size_t rules, const std::string& path, int64_t took_ns) {
  line_.clear();
  json_.write({{"kind", "summary"},
               {"points", points},
               {"rules", rules},
               {"file", path},
               {"seconds", static_cast<double>(took_ns) / 1e9}});
  if (json_.to_stdout()) return;
  print("{} rules of {} points in {}{}\n", rules, points, format_duration(took_ns),
        path.empty() ? "; --out FILE keeps them" : ", in " + path);
}

}  // namespace ibcoll::tools
