#include "tools/ib_mcast_bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "engine/multicast/messages.h"
#include "tools/ib_mcast_bench/master.h"
#include "tools/ib_mcast_bench/messages.h"

namespace ibcoll::tools {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
/// Without a message a rank that expects one gives up.
constexpr int kPatienceSeconds = 60;
/// Sets of the first master that are gone through one by one, to see what passes each port.
constexpr int kCountedSets = 16;

/// What one rank has counted, so far or in a while.
struct Counted {
  int64_t mails = 0, data_messages = 0, data_bytes = 0, announced = 0, memory_bytes = 0;
  int64_t queue_pairs = 0;
  int64_t member_of = 0;  ///< of the phase
  int64_t busy = 0;
  double took_us = 0;
};

size_t at(int index) { return static_cast<size_t>(index); }

/// One rank's side.
class McastRank {
 public:
  McastRank(ibcoll_context* context, const McastSettings& settings, const McastCallbacks& callbacks)
      : context_(context),
        settings_(settings),
        callbacks_(callbacks),
        me_(ibcoll_rank(context)),
        ranks_(ibcoll_size(context)),
        receiver_(context, settings) {}

  Status run() {
    for (int master = 0; master < settings_.masters; ++master) {
      sets_.emplace_back();
      for (int number = 0; number < settings_.warmup + settings_.sets; ++number)
        sets_.back().push_back(draw_set(settings_.draw, master, static_cast<uint64_t>(number)));
    }
    IBCOLL_TRY(find_processes());
    IBCOLL_TRY(set_up());
    for (const int64_t bytes : settings_.sizes) {
      for (const std::string& algorithm : settings_.algorithms) {
        if (me_ == 0)
          callbacks_.on_progress(fmt::format("{} bytes: {}", format_size(bytes), algorithm));
        IBCOLL_TRY(measure(algorithm, bytes));
      }
    }
    return {};
  }

 private:
  ibcoll_group* world() const { return ibcoll_world(context_); }
  Status barrier() { return of_api(ibcoll_barrier(world(), nullptr)); }
  bool is_master() const { return me_ < settings_.masters; }

  Status find_processes() {
    const auto mine = static_cast<int>(getpid());
    processes_.resize(at(ranks_));
    return of_api(ibcoll_allgather(world(), &mine, processes_.data(), sizeof mine, nullptr));
  }

  /// Connects everybody, and has each master reach all others once with the longest message.
  Status set_up() {
    IBCOLL_TRY(barrier());
    const int64_t begin = now_ns();
    std::vector<std::byte> send(at(ranks_)), recv(send.size());
    ibcoll_options linear = IBCOLL_OPTIONS_INIT;
    linear.algorithm = "linear";
    IBCOLL_TRY(of_api(ibcoll_alltoall(world(), send.data(), recv.data(), 1, &linear)));
    const int64_t longest = *std::max_element(settings_.sizes.begin(), settings_.sizes.end());
    for (const std::string& algorithm : settings_.algorithms) {
      for (int master = 0; master < settings_.masters; ++master) {
        if (me_ == master) {
          std::vector<int> others(at(ranks_));
          std::iota(others.begin(), others.end(), 0);
          others.erase(others.begin() + master);
          McastMaster sender(context_, settings_, 0);
          IBCOLL_TRY(sender.send_one(0, longest, algorithm, others));
        } else {
          IBCOLL_TRY(receive_one([](const ibcoll_message&) {}));
        }
        IBCOLL_TRY(barrier());
      }
    }
    McastSetup setup{static_cast<double>(now_ns() - begin) / 1e3, 0};
    IBCOLL_ASSIGN(const std::vector<Counted> all, since({}));
    for (const Counted& one : all) setup.queue_pairs += one.queue_pairs;
    if (me_ == 0) callbacks_.on_setup(setup);
    return {};
  }

  template <class Take>
  Status receive_one(const Take& take) {
    for (int second = 0; second < kPatienceSeconds; ++second) {
      const ibcoll_message* message = nullptr;
      IBCOLL_TRY(of_api(ibcoll_multicast_receive(context_, kSecondUs, &message)));
      if (message == nullptr) continue;
      take(*message);
      return of_api(ibcoll_message_free(context_, message));
    }
    return fail(ErrorCode::kDeadline, "rank {}: {} of {} messages have come, and none for {} s",
                me_, receiver_.received(), receiver_.expected(), kPatienceSeconds);
  }

  /// What the library has counted so far on this rank.
  Result<Counted> counted() const {
    ibcoll_multicast_counters multicasts = IBCOLL_MULTICAST_COUNTERS_INIT;
    IBCOLL_TRY(of_api(ibcoll_multicast_get_counters(context_, &multicasts)));
    ibcoll_counters network = IBCOLL_COUNTERS_INIT;
    IBCOLL_TRY(of_api(ibcoll_get_counters(context_, &network)));
    Counted now;
    now.mails = static_cast<int64_t>(multicasts.mails_sent);
    now.announced = static_cast<int64_t>(multicasts.announced);
    now.memory_bytes = static_cast<int64_t>(multicasts.most_memory_bytes);
    now.data_messages = static_cast<int64_t>(network.data_messages);
    now.data_bytes = static_cast<int64_t>(network.data_bytes);
    const char* name = nullptr;
    uint64_t value = 0;
    for (int i = 0; ibcoll_get_named_counter(context_, i, &name, &value) == IBCOLL_OK; ++i)
      if (std::string_view(name) == "queue_pairs") now.queue_pairs = static_cast<int64_t>(value);
    return now;
  }

  /// What has been counted since `before`, of all ranks; to be called after a barrier. The exchange
  /// itself is not in it.
  Result<std::vector<Counted>> since(const Counted& before, Counted own = {}) {
    IBCOLL_ASSIGN(const Counted now, counted());
    own.mails = now.mails - before.mails;
    own.announced = now.announced - before.announced;
    own.memory_bytes = now.memory_bytes;
    own.data_messages = now.data_messages - before.data_messages;
    own.data_bytes = now.data_bytes - before.data_bytes;
    own.queue_pairs = now.queue_pairs - before.queue_pairs;
    std::vector<Counted> all(at(ranks_));
    IBCOLL_TRY(of_api(ibcoll_allgather(world(), &own, all.data(), sizeof own, nullptr)));
    return all;
  }

  Status measure(const std::string& algorithm, int64_t bytes) {
    ++phase_;
    receiver_.begin(phase_, bytes, sets_);
    IBCOLL_ASSIGN(const Counted before, counted());
    const bool stops = settings_.slow && me_ == 0;
    McastMaster master(context_, settings_, stops ? processes_[at(*settings_.slow)] : 0);
    Counted own;
    IBCOLL_TRY(barrier());
    if (is_master()) {
      // What comes while this rank waits for acknowledgements is taken at once: it holds nobody up.
      IBCOLL_TRY(of_api(ibcoll_multicast_set_handler(
          context_,
          [](void* receiver, const ibcoll_message* message) {
            static_cast<McastReceiver*>(receiver)->take(*message);
          },
          &receiver_)));
      IBCOLL_TRY(master.send_all(phase_, bytes, algorithm, sets_[at(me_)]));
      IBCOLL_TRY(of_api(ibcoll_multicast_set_handler(context_, nullptr, nullptr)));
      own.busy = master.busy();
      own.took_us = master.took_us();
    }
    while (receiver_.received() < receiver_.expected())
      IBCOLL_TRY(receive_one([this](const ibcoll_message& message) { receiver_.take(message); }));
    IBCOLL_TRY(barrier());
    IBCOLL_TRY(nothing_more());
    IBCOLL_TRY(receiver_.wrong());
    own.member_of = receiver_.expected();
    IBCOLL_ASSIGN(const std::vector<Counted> counts, since(before, own));
    IBCOLL_ASSIGN(const std::vector<McastSample> samples, samples_of_all(master.samples()));
    McastRow row = summarise(samples, counts, bytes);
    row.algorithm = algorithm;
    IBCOLL_ASSIGN(row.bytes_per_port, count_ports(algorithm, bytes));
    if (me_ == 0) callbacks_.on_row(row);
    if (row.non_member_messages == 0) return {};
    return fail(ErrorCode::kInternal, "{} messages of multicasts came to ranks that are no members",
                row.non_member_messages);
  }

  /// A message too many is an error.
  Status nothing_more() {
    const ibcoll_message* message = nullptr;
    IBCOLL_TRY(of_api(ibcoll_multicast_receive(context_, 0, &message)));
    if (message == nullptr) return {};
    const int master = message->master;
    IBCOLL_TRY(of_api(ibcoll_message_free(context_, message)));
    return fail(ErrorCode::kInternal,
                "rank {}: a message of rank {} has come after all that were sent to it", me_,
                master);
  }

  Result<std::vector<McastSample>> samples_of_all(const std::vector<McastSample>& mine) {
    const auto each = at(settings_.sends() - settings_.warmup_sends());
    std::vector<McastSample> all(each * at(settings_.masters));
    for (int master = 0; master < settings_.masters; ++master) {
      McastSample* const place = all.data() + each * at(master);
      if (me_ == master) std::copy(mine.begin(), mine.end(), place);
      IBCOLL_TRY(of_api(ibcoll_bcast(world(), place, each * sizeof(McastSample), master, nullptr)));
    }
    return all;
  }

  McastRow summarise(const std::vector<McastSample>& samples, const std::vector<Counted>& counts,
                     int64_t bytes) const {
    McastRow row;
    row.bytes = bytes;
    row.checked = settings_.check;
    const auto where = [&](auto value, auto which) {
      std::vector<double> values;
      for (const McastSample& one : samples)
        if (which(one)) values.push_back(value(one));
      return values;
    };
    const auto us = [](const McastSample& one) { return one.us; };
    const auto every = [](const McastSample&) { return true; };
    const std::vector<double> times = where(us, every);
    row.min_us = minimum(times);
    row.p50_us = median(times);
    row.p90_us = quantile(times, 0.9);
    row.p99_us = quantile(times, 0.99);
    row.max_us = maximum(times);
    const auto own = where([](const McastSample& one) { return one.master_us; }, every);
    row.master_us = median(own);
    row.master_p99_us = quantile(own, 0.99);
    row.members =
        mean(where([](const McastSample& one) { return static_cast<double>(one.members); }, every));
    if (settings_.repeat) {
      row.first_us = median(where(us, [](const McastSample& one) { return one.second == 0; }));
      row.repeat_us = median(where(us, [](const McastSample& one) { return one.second != 0; }));
    }
    if (settings_.slow) look_at_slow(samples, row);
    if (settings_.bound) {
      row.bound_us = median(where([](const McastSample& one) { return one.bound_us; }, every));
      row.bound_kept = mean(
          where([](const McastSample& one) { return one.us <= one.bound_us ? 1.0 : 0.0; }, every));
    }
    count_messages(samples.size(), counts, row);
    return row;
  }

  /// What became of multicasts to sets without the rank that was stopped.
  void look_at_slow(const std::vector<McastSample>& samples, McastRow& row) const {
    const size_t each = samples.size() / at(settings_.masters);
    std::vector<double> before, meanwhile, others_before, others_meanwhile;
    for (size_t i = 0; i < samples.size(); ++i) {
      const McastSample& one = samples[i];
      if (one.slow != 0) continue;
      const bool first = i < each;  // the first master, which sends to that rank, too
      if (one.stopped != 0) {
        (first ? meanwhile : others_meanwhile).push_back(one.us);
      } else if (i % each < each / 2) {
        (first ? before : others_before).push_back(one.us);
      }
    }
    const auto middle = [](const std::vector<double>& values) {
      return values.empty() ? std::optional<double>() : median(values);
    };
    const auto most = [](const std::vector<double>& values) {
      return values.empty() ? std::optional<double>() : maximum(values);
    };
    row.others = static_cast<int64_t>(meanwhile.size());
    row.others_before_us = middle(before);
    row.others_p50_us = middle(meanwhile);
    row.others_max_us = most(meanwhile);
    row.other_masters = static_cast<int64_t>(others_meanwhile.size());
    row.other_masters_before_us = middle(others_before);
    row.other_masters_p50_us = middle(others_meanwhile);
    row.other_masters_max_us = most(others_meanwhile);
  }

  void count_messages(size_t samples, const std::vector<Counted>& counts, McastRow& row) const {
    int64_t messages = 0, deliveries = 0;
    double took_us = 0;
    // Short data travel in announcements, which the network counts as data messages, too.
    const bool is_short = row.bytes <= static_cast<int64_t>(kMaxShortMulticast);
    for (const Counted& one : counts) {
      messages += one.mails + (is_short ? 0 : one.data_messages);
      deliveries += one.member_of;
      row.non_member_messages += one.announced - one.member_of;
      row.memory_bytes = std::max(row.memory_bytes, one.memory_bytes);
      row.queue_pairs_added += one.queue_pairs;
      row.busy += one.busy;
      took_us = std::max(took_us, one.took_us);
    }
    row.messages_per_member = static_cast<double>(messages) / static_cast<double>(deliveries);
    row.multicasts_per_second = 1e6 * static_cast<double>(samples) / took_us;
  }

  /// Sends to some of the sets one after the other. How often a message has left the rank that
  /// sends most of it to other servers: the mean over those messages that leave one as data.
  Result<std::optional<double>> count_ports(const std::string& algorithm, int64_t bytes) {
    if (bytes == 0 || ibcoll_servers(context_) == 1) return std::optional<double>();
    double times = 0;
    int left = 0;
    const int sets = std::min(kCountedSets, settings_.sets);
    for (int i = 0; i < sets; ++i) {
      const std::vector<int>& members = sets_[0][at(settings_.warmup) + at(i)];
      IBCOLL_ASSIGN(const Counted before, counted());
      IBCOLL_TRY(barrier());
      if (me_ == 0) {
        McastMaster master(context_, settings_, 0);
        IBCOLL_TRY(master.send_one(0, bytes, algorithm, members));
      } else if (std::binary_search(members.begin(), members.end(), me_)) {
        IBCOLL_TRY(receive_one([](const ibcoll_message&) {}));
      }
      IBCOLL_TRY(barrier());
      IBCOLL_ASSIGN(const std::vector<Counted> counts, since(before));
      int64_t most = 0;
      for (const Counted& one : counts) most = std::max(most, one.data_bytes);
      times += static_cast<double>(most) / static_cast<double>(bytes);
      if (most > 0) ++left;
    }
    return left == 0 ? std::optional<double>() : times / left;
  }

  ibcoll_context* context_;
  const McastSettings& settings_;
  const McastCallbacks& callbacks_;
  int me_, ranks_;
  McastReceiver receiver_;
  std::vector<int> processes_;
  std::vector<std::vector<std::vector<int>>> sets_;  ///< by master and number
  uint32_t phase_ = 0;
};

}  // namespace

int64_t memory_needed(const McastSettings& settings) {
  const int64_t largest = *std::max_element(settings.sizes.begin(), settings.sizes.end());
  // Each member holds what each master has under way to it, and the masters have it, too.
  const double messages = static_cast<double>(settings.masters) * settings.window *
                          static_cast<double>(settings.draw.most + 1);
  return static_cast<int64_t>(std::min(messages * static_cast<double>(largest), 0x1p62));
}

Status run_mcast_bench(ibcoll_context* context, const McastSettings& settings,
                       const McastCallbacks& callbacks) {
  return McastRank(context, settings, callbacks).run();
}

}  // namespace ibcoll::tools
