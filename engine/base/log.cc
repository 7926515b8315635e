#include "engine/base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "engine/base/config.h"

namespace ibcoll {
namespace {

constexpr int kNoRank = -1;
std::atomic<int> process_rank = kNoRank;
thread_local int thread_rank = kNoRank;

/// "[3]", or nothing before a rank is known.
class RankFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& /*message*/, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const int rank = log_rank();
    if (rank == kNoRank) return;
    const std::string text = fmt::format("[{}]", rank);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<RankFlag>();
  }
};

spdlog::logger* make_logger() {
  auto* logger = new spdlog::logger("ibcoll", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<RankFlag>('*').set_pattern("ibcoll%*: %l: %v");
  logger->set_formatter(std::move(formatter));
  // check_environment() reports a level that is not allowed.
  const std::string level = config_choice("IBCOLL_LOG_LEVEL").value_or("warn");
  logger->set_level(spdlog::level::from_str(level));
  return logger;
}

spdlog::logger& logger() {
  // Never destroyed: threads may log while the process exits.
  static spdlog::logger* const made = make_logger();
  return *made;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void Log::write(LogLevel level, fmt::string_view format, fmt::format_args args) {
  spdlog::logger& to = logger();
  const spdlog::level::level_enum severity = spdlog_level(level);
  if (to.should_log(severity)) to.log(severity, spdlog::string_view_t(fmt::vformat(format, args)));
}

int log_rank() { return thread_rank != kNoRank ? thread_rank : process_rank.load(); }

void set_log_rank(int rank) {
  thread_rank = rank;
  process_rank = rank;
}

}  // namespace ibcoll
