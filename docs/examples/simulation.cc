// A simulation in real time: particles lie in a box, whose cells are dealt to workers, and a disc
// moves through it. In every time step the master tells those workers whose cells the disc touches
// where it is: another set each time, which nobody else need know of. They push their particles out
// of its way. c++ -std=c++20 simulation.cc $(pkg-config --cflags --libs ibcoll) -o simulation &&
// ./simulation 9 3,3,3 steps.jsonl
#include <ibcoll/ibcoll.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSteps = 80, kParticles = 2000;
constexpr std::chrono::milliseconds kTimeStep{5};

const char* steps_file = nullptr;

void check(ibcoll_status status) {
  if (status != IBCOLL_OK) throw ibcoll::error(status);
}

// What the master sends. Of step -1: there is nothing more.
struct Event {
  int step;
  double x, y, radius;
};

// Worker w has column w % columns and row w / columns of the box, which is 1 x 1.
struct Cell {
  double left, right, bottom, top;

  Cell(int worker, int workers) {
    int columns = static_cast<int>(std::ceil(std::sqrt(workers)));
    while (workers % columns != 0) ++columns;
    const int rows = workers / columns, column = worker % columns, row = worker / columns;
    left = double(column) / columns, right = double(column + 1) / columns;
    bottom = double(row) / rows, top = double(row + 1) / rows;
  }
  bool touches(const Event& disc) const {
    const double dx = disc.x - std::clamp(disc.x, left, right);
    const double dy = disc.y - std::clamp(disc.y, bottom, top);
    return dx * dx + dy * dy <= disc.radius * disc.radius;
  }
};

struct Particle {
  double x, y;
};

class Part {
 public:
  Part(int worker, int workers) : cell_(worker, workers), particles_(kParticles) {
    // Numbers that look random, the same everywhere.
    unsigned state = 12345u + static_cast<unsigned>(worker);
    const auto random = [&state] {
      return (state = state * 1664525u + 1013904223u) / 4294967296.0;
    };
    for (Particle& particle : particles_) {
      particle.x = cell_.left + (cell_.right - cell_.left) * random();
      particle.y = cell_.bottom + (cell_.top - cell_.bottom) * random();
    }
  }
  const Cell& cell() const { return cell_; }

  void push_out(const Event& disc) {
    for (Particle& particle : particles_) {
      const double dx = particle.x - disc.x, dy = particle.y - disc.y;
      const double distance = std::sqrt(dx * dx + dy * dy);
      if (distance >= disc.radius || distance == 0) continue;
      particle.x = std::clamp(disc.x + dx * disc.radius / distance, cell_.left, cell_.right);
      particle.y = std::clamp(disc.y + dy * disc.radius / distance, cell_.bottom, cell_.top);
      ++pushed_;
    }
  }

  // How often particles were pushed, and where they are now.
  std::vector<double> state() const {
    double x = 0, y = 0;
    for (const Particle& particle : particles_) x += particle.x, y += particle.y;
    return {pushed_, x, y};
  }

 private:
  Cell cell_;
  std::vector<Particle> particles_;
  double pushed_ = 0;
};

// Where the disc is in a step, and how large.
Event disc_at(int step) {
  const double time = 6.283185307179586 * step / kSteps;
  return {step, 0.5 + 0.4 * std::cos(2 * time), 0.5 + 0.4 * std::sin(3 * time),
          0.15 + 0.1 * std::sin(5 * time)};
}

// Sends an event to these ranks, and waits until they have it.
void send(ibcoll_context* context, const std::vector<int>& ranks, const Event& event) {
  std::vector<uint64_t> bits(static_cast<size_t>(ibcoll_size(context)) / 64 + 1);
  for (const int rank : ranks) bits[static_cast<size_t>(rank) / 64] |= uint64_t{1} << rank % 64;
  ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
  options.acknowledged = 1;
  check(
      ibcoll_multicast(context, bits.data(), bits.size(), &event, sizeof event, &options, nullptr));
}

// Rank 0. `parts` stand for those of the workers: at the end both must have done the same.
void run_master(ibcoll_context* context, std::vector<Part>& parts) {
  std::FILE* const file = steps_file != nullptr ? std::fopen(steps_file, "w") : nullptr;
  using Clock = std::chrono::steady_clock;
  std::vector<double> latencies;
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < kSteps; ++step) {
    std::this_thread::sleep_until(begin + step * kTimeStep);
    const Event disc = disc_at(step);
    std::vector<int> ranks;
    std::string list;
    for (size_t worker = 0; worker < parts.size(); ++worker) {
      if (!parts[worker].cell().touches(disc)) continue;
      ranks.push_back(static_cast<int>(worker) + 1);
      list += (list.empty() ? "" : ",") + std::to_string(worker + 1);
    }
    const Clock::time_point start = Clock::now();
    send(context, ranks, disc);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    latencies.push_back(took.count());
    for (const int rank : ranks) parts[static_cast<size_t>(rank) - 1].push_out(disc);
    if (file != nullptr)
      std::fprintf(file, "{\"step\":%d,\"ranks\":%zu,\"us\":%.3f,\"members\":[%s]}\n", step,
                   parts.size() + 1, took.count(), list.c_str());
  }
  std::vector<int> all;
  for (size_t worker = 0; worker < parts.size(); ++worker)
    all.push_back(static_cast<int>(worker) + 1);
  send(context, all, {-1, 0, 0, 0});
  if (file != nullptr) std::fclose(file);
  std::sort(latencies.begin(), latencies.end());
  std::printf(
      "%d steps of %d ms, %zu workers: %.1f us in the median until all had the event, %.1f at "
      "most\n",
      kSteps, static_cast<int>(kTimeStep.count()), parts.size(), latencies[latencies.size() / 2],
      latencies.back());
}

// The others: what comes is all they know.
void run_worker(ibcoll_context* context, Part& part) {
  for (bool more = true; more;) {
    const ibcoll_message* message = nullptr;
    check(ibcoll_multicast_receive(context, -1, &message));
    const Event disc = *static_cast<const Event*>(message->data);
    check(ibcoll_message_free(context, message));
    more = disc.step >= 0;
    if (more) part.push_out(disc);
  }
}

int run(ibcoll::context& context) {
  const ibcoll::group world = context.world();
  const int me = world.rank(), workers = world.size() - 1;
  std::vector<Part> parts;  // of the master, which has no cell: those of all workers
  for (int worker = 0; worker < workers; ++worker)
    if (me == 0 || me == worker + 1) parts.emplace_back(worker, workers);
  if (me == 0) {
    run_master(context.handle(), parts);
  } else {
    run_worker(context.handle(), parts.front());
  }
  const std::vector<double> mine = me == 0 ? std::vector<double>(3) : parts.front().state();
  std::vector<double> states(3 * static_cast<size_t>(world.size()));
  world.gather<double>(mine, states, 0);
  if (me != 0) return 0;
  int wrong = 0;
  double pushed = 0;
  for (size_t worker = 0; worker < parts.size(); ++worker) {
    const std::vector<double> state = parts[worker].state();
    pushed += state[0];
    wrong += !std::equal(state.begin(), state.end(),
                         states.begin() + 3 * (static_cast<long>(worker) + 1));
  }
  std::printf("particles were pushed %.0f times: %s\n", pushed, wrong != 0 ? "wrong" : "right");
  return wrong != 0 || pushed == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 9;
  if (ranks < 2) return 2;
  if (argc > 3) steps_file = argv[3];
  try {
    return ibcoll::launch(ranks, run, argc > 2 ? argv[2] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
