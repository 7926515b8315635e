#include "studies/task_graph/emit_schedule.h"

#include <algorithm>
#include <set>

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;
using Parcel = MessagePlan::Parcel;

/// Clusters by level and processor, ascending.
class Places {
 public:
  Places(const ClusterGraph& clusters, const Placement& placement)
      : processors_(placement.processors),
        cells_(static_cast<size_t>(clusters.levels()) * placement.processors) {
    for (ClusterId c = 0; c < clusters.size(); ++c)
      cells_[static_cast<size_t>(clusters.level[c]) * processors_ + placement.processor[c]]
          .push_back(c);
  }
  const std::vector<ClusterId>& at(int32_t level, ProcessorId p) const {
    return cells_[static_cast<size_t>(level) * processors_ + p];
  }

 private:
  int processors_;
  std::vector<std::vector<ClusterId>> cells_;
};

/// Which results each processor holds.
class Held {
 public:
  Held(int processors, TaskId tasks) : bits_(processors, std::vector<bool>(tasks, false)) {}
  std::vector<bool>::reference at(ProcessorId p, TaskId task) { return bits_[p][task]; }

 private:
  std::vector<std::vector<bool>> bits_;
};

/// Appends the cluster's tasks that the processor doesn't hold; returns when they are done.
Time run_cluster(const TaskGraph& graph, const ClusterGraph& clusters, ClusterId cluster,
                 ProcessorId p, Time clock, Held& held, TaskSchedule& schedule) {
  for (TaskId task : clusters.tasks_of(cluster)) {
    if (held.at(p, task)) continue;
    held.at(p, task) = true;
    schedule.processors[p].push_back({clock, task, Kind::kRun});
    clock += graph.weight(task);
  }
  return clock;
}

}  // namespace

MessagePlan plan_messages(const TaskGraph& graph, const ClusterGraph& clusters,
                          const Placement& placement) {
  MessagePlan plan;
  plan.missing.assign(clusters.size(), 0);
  const auto processors = static_cast<size_t>(placement.processors);
  const size_t pairs = processors * processors;
  std::vector<int32_t> parcel_of(pairs * clusters.levels(), -1);
  const auto cell = [&](int32_t level, ProcessorId from, ProcessorId to) {
    return pairs * level + processors * from + to;
  };
  // Parcels in order of level, from, to.
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    for (ClusterId provider : clusters.needs[c]) {
      if (placement.processor[provider] != placement.processor[c])
        parcel_of[cell(clusters.level[provider], placement.processor[provider],
                       placement.processor[c])] = 0;
    }
  }
  for (size_t i = 0; i < parcel_of.size(); ++i) {
    if (parcel_of[i] < 0) continue;
    parcel_of[i] = static_cast<int32_t>(plan.parcels.size());
    plan.parcels.push_back({static_cast<int32_t>(i / pairs),
                            static_cast<ProcessorId>(i % pairs / processors),
                            static_cast<ProcessorId>(i % processors),
                            {},
                            {}});
  }
  plan.needed_by.resize(plan.parcels.size());
  std::vector<ClusterId> seen(graph.size(), -1);
  for (ClusterId c = 0; c < clusters.size(); ++c) {
    const ProcessorId to = placement.processor[c];
    for (TaskId task : clusters.tasks_of(c)) seen[task] = c;
    for (TaskId task : clusters.tasks_of(c)) {
      for (TaskId before : graph.predecessors(task)) {
        if (seen[before] == c) continue;
        seen[before] = c;
        const ClusterId provider = clusters.provider[before];
        const ProcessorId from = placement.processor[provider];
        if (from == to) continue;
        const int32_t parcel = parcel_of[cell(clusters.level[provider], from, to)];
        plan.parcels[parcel].tasks.push_back(before);
        auto& users = plan.needed_by[parcel];
        if (users.empty() || users.back() != c) {
          users.push_back(c);
          ++plan.missing[c];
        }
      }
    }
  }
  for (Parcel& parcel : plan.parcels) {
    std::sort(parcel.tasks.begin(), parcel.tasks.end());
    parcel.tasks.erase(std::unique(parcel.tasks.begin(), parcel.tasks.end()), parcel.tasks.end());
    parcel.tasks.shrink_to_fit();
    for (TaskId task : parcel.tasks) parcel.providers.push_back(clusters.provider[task]);
    std::sort(parcel.providers.begin(), parcel.providers.end());
    parcel.providers.erase(std::unique(parcel.providers.begin(), parcel.providers.end()),
                           parcel.providers.end());
    parcel.providers.shrink_to_fit();
  }
  return plan;
}

namespace {

/// What the paper's figure 13 keeps while it emits.
class PackagedEmitter {
 public:
  PackagedEmitter(const TaskGraph& graph, const LogP& logp, const ClusterGraph& clusters,
                  const Placement& placement, const MessagePlan& plan)
      : graph_(graph),
        logp_(logp),
        clusters_(clusters),
        plan_(plan),
        places_(clusters, placement),
        held_(placement.processors, graph.size()),
        missing_(plan.missing),
        clock_(placement.processors, 0),
        arriving_(placement.processors),
        schedule_(placement.processors, logp) {}

  TaskSchedule run() {
    size_t parcels_end = plan_.parcels.size();
    for (int32_t level = clusters_.levels() - 1; level >= 0; --level) {
      size_t first = parcels_end;
      while (first > 0 && plan_.parcels[first - 1].level == level) --first;
      std::vector<std::set<Arrival>> next(arriving_.size());
      size_t at = first;
      for (ProcessorId p = 0; p < static_cast<ProcessorId>(clock_.size()); ++p) {
        const size_t begin = at;
        while (at < parcels_end && plan_.parcels[at].from == p) ++at;
        emit_layer(level, p, begin, at, next);
      }
      arriving_ = std::move(next);
      parcels_end = first;
    }
    return std::move(schedule_);
  }

 private:
  struct Arrival {
    Time time;
    MessageId message;
    size_t parcel;
    auto operator<=>(const Arrival&) const = default;
  };
  /// A send or cluster with its priority; ascending order is the order of urgency.
  struct Urgent {
    Time work;
    int32_t index;
    auto operator<=>(const Urgent&) const = default;
  };

  void emit_layer(int32_t level, ProcessorId p, size_t first, size_t last,
                  std::vector<std::set<Arrival>>& next) {
    const auto& clusters = places_.at(level, p);
    // Urgency of sends: the cluster work they need; of clusters: their most urgent send's.
    std::vector<Urgent> urgency(clusters.size());
    for (size_t i = 0; i < clusters.size(); ++i)
      urgency[i] = {INT64_MAX, static_cast<int32_t>(last)};
    std::vector<Time> send_work(last - first, 0);
    std::vector<size_t> providers_left(last - first);
    std::vector<std::vector<int32_t>> feeds(clusters.size());
    const auto position = [&](ClusterId c) {
      return std::lower_bound(clusters.begin(), clusters.end(), c) - clusters.begin();
    };
    for (size_t s = first; s < last; ++s) {
      const Parcel& parcel = plan_.parcels[s];
      providers_left[s - first] = parcel.providers.size();
      for (ClusterId c : parcel.providers) send_work[s - first] += clusters_.work[c];
      for (ClusterId c : parcel.providers) {
        const auto i = position(c);
        feeds[i].push_back(static_cast<int32_t>(s));
        urgency[i] = std::min(urgency[i], {send_work[s - first], static_cast<int32_t>(s)});
      }
    }
    struct Ready {
      Urgent urgency;
      ClusterId cluster;
      auto operator<=>(const Ready&) const = default;
    };
    std::set<Ready> ready;
    std::set<Urgent> sends;
    for (size_t i = 0; i < clusters.size(); ++i) {
      if (missing_[clusters[i]] == 0) ready.insert({urgency[i], clusters[i]});
    }
    Time& clock = clock_[p];
    auto& instructions = schedule_.processors[p];
    auto& arriving = arriving_[p];
    while (!arriving.empty() || !sends.empty() || !ready.empty()) {
      if (!arriving.empty() && arriving.begin()->time <= clock) {
        const Arrival arrival = *arriving.begin();
        arriving.erase(arriving.begin());
        instructions.push_back({clock, arrival.message, Kind::kReceive});
        clock += logp_.receive_overhead;
        for (TaskId task : plan_.parcels[arrival.parcel].tasks) held_.at(p, task) = true;
        for (ClusterId c : plan_.needed_by[arrival.parcel]) {
          if (--missing_[c] == 0 && clusters_.level[c] == level)
            ready.insert({urgency[position(c)], c});
        }
      } else if (!sends.empty()) {
        const auto s = static_cast<size_t>(sends.begin()->index);
        sends.erase(sends.begin());
        const Parcel& parcel = plan_.parcels[s];
        const MessageId message = schedule_.add_message(p, parcel.to, parcel.tasks);
        instructions.push_back({clock, message, Kind::kSend});
        next[parcel.to].insert(
            {clock + logp_.arrival(static_cast<int64_t>(parcel.tasks.size())), message, s});
        clock += logp_.send_overhead;
      } else if (!ready.empty()) {
        const ClusterId cluster = ready.begin()->cluster;
        ready.erase(ready.begin());
        clock = run_cluster(graph_, clusters_, cluster, p, clock, held_, schedule_);
        for (int32_t s : feeds[position(cluster)]) {
          if (--providers_left[s - first] == 0) sends.insert({send_work[s - first], s});
        }
      } else {
        clock = arriving.begin()->time;
      }
    }
  }

  const TaskGraph& graph_;
  const LogP logp_;
  const ClusterGraph& clusters_;
  const MessagePlan& plan_;
  const Places places_;
  Held held_;
  std::vector<int32_t> missing_;
  std::vector<Time> clock_;
  std::vector<std::set<Arrival>> arriving_;  ///< by processor: messages of the layer above
  TaskSchedule schedule_;
};

}  // namespace

TaskSchedule emit_packaged(const TaskGraph& graph, const LogP& logp, const ClusterGraph& clusters,
                           const Placement& placement, const MessagePlan& plan) {
  return PackagedEmitter(graph, logp, clusters, placement, plan).run();
}

TaskSchedule emit_bulk_synchronous(const TaskGraph& graph, const LogP& logp,
                                   const ClusterGraph& clusters, const Placement& placement,
                                   const MessagePlan& plan, int participants) {
  const Places places(clusters, placement);
  const int processors = placement.processors;
  Held held(processors, graph.size());
  TaskSchedule schedule(processors, logp);
  const Time others = participants - 1;
  const Time exchange = std::max(others * logp.send_overhead + logp.latency + logp.receive_overhead,
                                 others * (logp.send_overhead + logp.receive_overhead));
  Time start = 0;
  size_t parcels_end = plan.parcels.size();
  for (int32_t level = clusters.levels() - 1; level >= 0; --level) {
    Time end = start;
    for (ProcessorId p = 0; p < processors; ++p) {
      Time clock = start;
      for (ClusterId c : places.at(level, p))
        clock = run_cluster(graph, clusters, c, p, clock, held, schedule);
      end = std::max(end, clock);
    }
    size_t first = parcels_end;
    while (first > 0 && plan.parcels[first - 1].level == level) --first;
    start = end;
    if (level == 0 || first == parcels_end) continue;  // nothing to exchange
    // Round r: everybody sends to the processor r after it, so that arrivals spread out.
    struct Arrival {
      Time time;
      MessageId message;
      auto operator<=>(const Arrival&) const = default;
    };
    std::vector<std::vector<Arrival>> arriving(processors);
    std::vector<std::pair<ProcessorId, size_t>> order;
    for (size_t i = first; i < parcels_end; ++i) {
      const Parcel& parcel = plan.parcels[i];
      order.emplace_back((parcel.to - parcel.from + participants) % participants, i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [round, i] : order) {
      const Parcel& parcel = plan.parcels[i];
      std::vector<TaskId> fresh;
      for (TaskId task : parcel.tasks) {
        if (!held.at(parcel.to, task)) fresh.push_back(task);
        held.at(parcel.to, task) = true;
      }
      if (fresh.empty()) continue;
      const MessageId message = schedule.add_message(parcel.from, parcel.to, fresh);
      const Time at = end + (round - 1) * logp.send_overhead;
      schedule.processors[parcel.from].push_back({at, message, Kind::kSend});
      arriving[parcel.to].push_back(
          {at + logp.arrival(static_cast<int64_t>(fresh.size())), message});
    }
    start = end + exchange;
    for (ProcessorId p = 0; p < processors; ++p) {
      std::sort(arriving[p].begin(), arriving[p].end());
      Time clock = end + others * logp.send_overhead;
      for (const auto& [time, message] : arriving[p]) {
        clock = std::max(clock, time);
        schedule.processors[p].push_back({clock, message, Kind::kReceive});
        clock += logp.receive_overhead;
      }
      if (!arriving[p].empty()) start = std::max(start, clock);
    }
    parcels_end = first;
  }
  return schedule;
}

}  // namespace ibcoll::task_graph
