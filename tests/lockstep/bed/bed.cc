#include "tests/lockstep/bed/bed.h"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/lockstep/bed/machine.h"
#include "tests/lockstep/bed/state.h"

namespace ibcoll::lockstep {

uint64_t g_changes = 0;
Bed::State* g_state = nullptr;

namespace {

constexpr int64_t kClockNs = 20;

}  // namespace

namespace machine {

bool active() { return g_state != nullptr; }
bool in_fiber() { return g_state != nullptr && g_state->slice != 0; }
int64_t now_ns() {
  Bed::State& bed = state();
  if (!in_fiber()) return bed.now;
  bed.now += kClockNs;
  return bed.now + bed.processes[static_cast<size_t>(self().process)].clock_ahead;
}
int process_id() { return kFirstPid + self().process; }
int process_of(int pid) {
  const int process = pid - kFirstPid;
  return process >= 0 && process < static_cast<int>(state().processes.size()) ? process : -1;
}
bool is_dead(int process) { return state().processes[static_cast<size_t>(process)].ended; }
int64_t true_ns() { return state().now; }
int current_process() { return self().process; }
int status_of(int process) { return state().processes[static_cast<size_t>(process)].status; }
int open_end_of(int process) {
  const int fd = dup(end_of(process));
  if (fd >= 0) state().ends[fd] = process;
  return fd;
}
int process_of_descriptor(int fd) {
  const auto found = state().ends.find(fd);
  return found == state().ends.end() ? -1 : found->second;
}
void forget_descriptor(int fd) { state().ends.erase(fd); }
int end_of(int process) { return state().processes[static_cast<size_t>(process)].end_fd; }

uint64_t key_of(const void* word) {
  const auto address = reinterpret_cast<uintptr_t>(word);
  const auto& mappings = state().mappings;
  auto found = mappings.upper_bound(address);
  if (found == mappings.begin()) return address;
  --found;
  const auto& [begin, mapping] = *found;
  if (address >= begin + mapping.bytes) return address;
  return drawn({mapping.inode, static_cast<uint64_t>(mapping.offset) + (address - begin)}) | 1;
}

void note_mapping(void* address, size_t bytes, int fd, int64_t offset) {
  struct stat info {};
  if (fstat(fd, &info) == 0)
    state().mappings[reinterpret_cast<uintptr_t>(address)] = {bytes, info.st_ino, offset};
}

void forget_mapping(void* address, size_t) {
  state().mappings.erase(reinterpret_cast<uintptr_t>(address));
}

uint64_t start_thread(void* (*body)(void*), void* argument) {
  step();
  Fiber& fiber = state().make_fiber(self().process);
  fiber.body = body;
  fiber.argument = argument;
  ++g_changes;
  return fiber.number;
}

void* join_thread(uint64_t thread) {
  Fiber& other = *state().fibers[thread - 1];
  while (other.is != Fiber::Is::kEnded) yield();
  return other.result;
}

uint64_t current_thread() { return self().number; }

bool is_thread_dead(uint64_t thread) {
  if (thread == 0 || thread > state().fibers.size()) return true;
  return is_dead(state().fibers[thread - 1]->process);
}

bool is_let_go(int process) { return state().processes[static_cast<size_t>(process)].let_go; }

void note_change() { ++g_changes; }

}  // namespace machine

Bed::Bed(const Conditions& conditions, int processes)
    : state_(std::make_unique<State>(conditions)) {
  State& self = *state_;
  self.bed = this;
  self.processes.resize(static_cast<size_t>(processes));
  for (size_t i = 0; i < self.processes.size(); ++i) {
    Process& process = self.processes[i];
    process.end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    process.slow = conditions.slow_ranks != 0 && self.random.one_in(conditions.slow_ranks);
    for (const Disturbance& one : conditions.disturbances) {
      if (one.rank != static_cast<int>(i) || counts_for_itself(one.kind)) continue;
      (one.by == Disturbance::By::kUpdate ? process.due_by_update
       : one.by == Disturbance::By::kRoom ? process.due_by_room
                                          : process.due)
          .push_back(one);
    }
    for (auto* const list : {&process.due, &process.due_by_update}) {
      std::stable_sort(list->begin(), list->end(),
                       [](const Disturbance& a, const Disturbance& b) { return a.at < b.at; });
    }
  }
  if (conditions.long_turns()) self.longest_delay = kMostNs;
  g_state = &self;
}

Bed::~Bed() {
  g_state = nullptr;
  g_delays_stores = g_has_delayed = false;
  g_accesses_left = INT64_MAX;
  for (const Process& process : state_->processes) close(process.end_fd);
  for (const auto& fiber : state_->fibers) free_stack(*fiber);
}

void Bed::start(int process, std::function<int()> body) {
  Fiber& fiber = state_->make_fiber(process);
  fiber.first = true;
  fiber.main = std::move(body);
  state_->processes[static_cast<size_t>(process)].started = true;
}

void Bed::run() {
  state_->run();
  state_->counts.changes = g_changes - state_->changes_at_start;
  state_->counts.virtual_ns = state_->now;
}

const std::string& Bed::stuck() const { return state_->why_stuck; }
const Counts& Bed::counts() const { return state_->counts; }

uint64_t Bed::dead() const {
  uint64_t dead = 0;
  for (size_t i = 0; i < state_->processes.size(); ++i)
    dead |= uint64_t{state_->processes[i].dead} << i;
  return dead;
}

void Bed::let_go(int process) { state_->processes[static_cast<size_t>(process)].let_go = true; }
bool Bed::memory_failed() const { return state_->memory_failed; }
int64_t Bed::longest_delay_ns() const { return state_->longest_delay; }
int64_t Bed::now_ns() const { return state_->now; }
void Bed::kill(int process) {
  if (state_->traces) state_->tell_all(process);
  state_->kill(process);
}
void Bed::sleep(int64_t ns) { machine::sleep_until(machine::now_ns() + ns); }
void Bed::trace(bool on) { state_->traces = on; }

}  // namespace ibcoll::lockstep
