#include "integrations/mpi/operations.h"

#include <sched.h>

#include <deque>
#include <mutex>
#include <vector>

#include "integrations/mpi/handle_table.h"
#include "integrations/mpi/neighbours.h"
#include "integrations/mpi/under_way.h"

namespace ibcoll::mpi {

namespace {

struct Operations {
  HandleTable<Operation> by_request;
  std::atomic<int64_t> under_way{0}, failed{0};
  std::atomic<bool> stays{false};  ///< one of `under_way` is none, but keep_moving()

  std::mutex pool_mutex;
  std::deque<Operation> all;
  Operation* first_free = nullptr;
  std::vector<int> free_tags;
  int next_tag = Job::kFirstCallTag;
};

Operations& operations() {
  static auto* const all = new Operations;
  return *all;
}

Operation& take() {
  Operations& of = operations();
  const std::lock_guard lock(of.pool_mutex);
  Operation* taken = of.first_free;
  if (taken != nullptr)
    of.first_free = taken->next;
  else
    taken = &of.all.emplace_back();
  taken->next = nullptr;
  taken->state = Operation::kIdle;
  taken->code = 0;
  taken->refused = IBCOLL_OK;
  taken->is_freed = false;
  taken->holds = 1;
  return *taken;
}

/// The engine's request and its group, but not the communicator; the operation is not under way.
void end_call(Operation& operation) {
  if (operation.engine != nullptr) (void)ibcoll_call_free(std::exchange(operation.engine, nullptr));
  operation.described.end();
  if (operation.own != operation.on) release(*operation.own);
  operation.own = operation.on;
}

void give_back(Operation& operation) {
  end_call(operation);
  release(*operation.on);
  operation.on = operation.own = nullptr;
}

/// One hold less.
void let_go(Operation& operation) {
  if (operation.holds.fetch_sub(1) != 1) return;
  if (operation.on != nullptr) give_back(operation);
  Operations& of = operations();
  if (operation.code != 0) --of.failed;
  const std::lock_guard lock(of.pool_mutex);
  if (operation.is_persistent()) of.free_tags.push_back(std::exchange(operation.tag, -1));
  operation.request = 0;
  operation.next = of.first_free;
  of.first_free = &operation;
}

int take_tag() {
  Operations& of = operations();
  const std::lock_guard lock(of.pool_mutex);
  if (of.free_tags.empty()) return of.next_tag++;
  const int tag = of.free_tags.back();
  of.free_tags.pop_back();
  return tag;
}

bool claim(Operation& operation) {
  return !operation.claimed.exchange(true, std::memory_order_acquire);
}

Attempt attempt_of(const Operation& operation) {
  return {operation.function, the_job(),
          *operation.own,     operation.on->handle,
          operation.number,   operation.is_persistent() ? Form::kPersistent : Form::kNonblocking};
}

/// Tells the MPI that the request is complete.
void complete(Operation& operation) {
  const Library& mpi = library();
  const Job& job = the_job();
  if (!operation.is_persistent()) {
    if (operation.request != 0) mpi.Grequest_complete(operation.request);
    return;
  }
  mpi.Send(nullptr, 0, mpi.constants.type_byte, 0, operation.tag, job.alone);
  if (!operation.is_freed) return;
  Handle request = operation.request;
  mpi.Wait(&request, mpi.constants.status_ignore);
  mpi.Request_free(&request);
}

/// Where errors end the job nothing is gained by waiting until the program completes the request.
void tell_if_fatal(const Operation& operation, int code) {
  if (!is_fatal_on(*operation.on)) return;
  Untold untold;
  untold.set(*operation.on, code);
  untold.tell();
}

/// What the engine has said of an operation that was claimed and is not under way any more.
void finish(Operation& operation, ibcoll_status status) {
  const Attempt attempt = attempt_of(operation);
  Outcome outcome = kNothingToDo;
  if (status != IBCOLL_OK) {
    const bool refused = operation.refused != IBCOLL_OK;
    outcome = attempt.failed(status, refused ? operation.why.c_str() : nullptr);
  } else if (operation.described.code != 0) {
    outcome = Outcome::failed(operation.described.code);
  } else if (!operation.described.deliver(attempt.job)) {
    outcome = attempt.undelivered();
  }
  if (outcome.code != 0) {
    tell_if_fatal(operation, outcome.code);
    if (operation.code.exchange(outcome.code) == 0) ++operations().failed;
  }
  const bool persistent = operation.is_persistent();
  // Who completes one that has failed tells the communicator's handler.
  if (!persistent && outcome.code != 0) end_call(operation);
  if (!persistent && outcome.code == 0) give_back(operation);
  operation.state = persistent ? Operation::kIdle : Operation::kEnded;
  --operations().under_way;
  operation.claimed.store(false, std::memory_order_release);
  complete(operation);
  let_go(operation);
}

/// Of one that has ended.
ibcoll_status test(Operation& operation) {
  if (operation.refused != IBCOLL_OK) return operation.refused;
  ibcoll_status status = IBCOLL_OK;
  for (int done = 0; done == 0 && status == IBCOLL_OK;)
    status = ibcoll_test(operation.engine, &done);
  return status;
}

/// The operation, which is claimed, is under way from now on; `posted`: the engine has it.
void begin(Operation& operation, bool posted) {
  begin_moving();
  ++operation.holds;
  ++operations().under_way;
  operation.state = Operation::kUnderWay;
  add_under_way(operation, posted);
}

/// Takes a claimed one out of those under way, and ends it.
void end(Operation& operation, ibcoll_status status) {
  remove_under_way(operation);
  finish(operation, status);
}

/// The claim of one that was just started ends.
void look_at(Operation& operation) {
  if (operation.engine != nullptr && ibcoll_may_be_done(operation.engine) != 0)
    end(operation, test(operation));
  else
    operation.claimed.store(false, std::memory_order_release);
}

int query(void*, void* status) {
  const Library& mpi = library();
  auto* const at = static_cast<std::byte*>(status);
  *reinterpret_cast<int*>(at + mpi.constants.status_source_at) = mpi.constants.any_source;
  *reinterpret_cast<int*>(at + mpi.constants.status_tag_at) = mpi.constants.any_tag;
  mpi.Status_set_elements(status, mpi.constants.type_byte, 0);
  mpi.Status_set_cancelled(status, 0);
  return 0;
}

/// The MPI needs the request no more: it may say so before the call has ended.
int forget_operation(void* extra) {
  if (extra == nullptr) return 0;
  auto& operation = *static_cast<Operation*>(extra);
  operations().by_request.erase(operation.request);
  let_go(operation);
  return 0;
}

int cancel(void*, int) { return 0; }

}  // namespace

Launch::Launch(Job& job, Function function, Form form, Handle comm)
    : job_(job),
      form_(form),
      handle_(library().clean(comm)),
      function_(function),
      began_(job.reports ? time_ns() : 0),
      outcome_(Outcome::to_mpi(Reason::kNotChosen)) {
  if (!job.has_selected(function)) return;
  const Inside inside;
  const bool persistent = form == Form::kPersistent;
  if (persistent) post_those_that_wait();  // to describe it, and that all agree, may be calls, too
  Communicator* const on =
      persistent ? find_communicator(job, handle_) : known_communicator(job, handle_);
  outcome_ = on == nullptr && !persistent ? Outcome::to_mpi(Reason::kTooEarly) : served(on);
  if (outcome_.kind != Outcome::kReady) return;
  use(*on);
  operation_ = &take();
  operation_->function = function;
  operation_->on = operation_->own = on;
  operation_->number = on->calls + 1;
}

void Launch::drop() { let_go(*std::exchange(operation_, nullptr)); }

bool Launch::takes_over(const Outcome& described, void* request) {
  if (operation_ == nullptr) return outcome_.kind != Outcome::kMpi;
  outcome_ = described;
  const bool persistent = form_ == Form::kPersistent;
  Communicator& on = *operation_->on;
  const bool counts = outcome_.kind != Outcome::kMpi;
  if (counts) on.calls = operation_->number;
  if (counts && outcome_.code == 0 && has_ended(job_, on)) [[unlikely]] {
    outcome_ = after_the_end(on, operation_->number);
  } else if (outcome_.kind == Outcome::kReady) {
    bytes_ = call().bytes;
    outcome_ = !call().keep_datatypes() ? attempt().give_up()
               : persistent             ? prepare(request, true)
                                        : start(request);
  } else if (outcome_.kind == Outcome::kOver && outcome_.code == 0) {
    call().bytes = 0;
    outcome_ = persistent ? prepare(request, false) : hand_out_finished(request);
  }
  if (counts) on.ended = on.calls;
  if (operation_ != nullptr && (outcome_.kind == Outcome::kMpi || outcome_.code != 0)) drop();
  return outcome_.kind != Outcome::kMpi;
}

Outcome Launch::start(void* request) {
  const Library& mpi = library();
  Operation& operation = *operation_;
  operation.described.note(job_, *operation.own);
  const bool at_once = may_post(*operation.own);
  if (at_once) {
    if (!operation.described.load(job_)) return attempt().give_up();
    const ibcoll_status status = give_to_engine(operation);
    if (status != IBCOLL_OK) return attempt().failed(status);
  }
  operation.claimed = true;
  begin(operation, at_once);
  const int code = mpi.Grequest_start(query, forget_operation, cancel, &operation, request);
  if (code == 0) {
    operation.request = mpi.handle_at(request, 0);
    operations().by_request.insert(operation.request, &operation);
  }
  look_at(operation);
  return Outcome::over(code);
}

Outcome Launch::prepare(void* request, bool moves) {
  Operation& operation = *operation_;
  Communicator* const own = make_private(job_, *operation.on);
  if (own == nullptr) return attempt().failed(ibcoll_group_status(operation.on->group));
  operation.own = own;
  if (own->group == nullptr) return Outcome::to_mpi(own->reason);
  if (!moves) return hand_out(request);
  if (!take_graph_along(*own, handle_, operation.described.call)) {
    const ibcoll_status status = ibcoll_group_status(own->group);
    return status == IBCOLL_OK ? Outcome::to_mpi(Reason::kNoGroup) : attempt().failed(status);
  }
  operation.described.call.flags = IBCOLL_PERSISTENT;
  const ibcoll_status status =
      ibcoll_call_init(operation.own->group, &operation.described.call, &operation.engine);
  return status == IBCOLL_OK ? hand_out(request) : attempt().failed(status);
}

Outcome Launch::hand_out(void* request) {
  const Library& mpi = library();
  Operation& operation = *operation_;
  operation.tag = take_tag();
  const int code =
      mpi.Recv_init(nullptr, 0, mpi.constants.type_byte, 0, operation.tag, job_.alone, request);
  if (code != 0) {
    say("the MPI gives no more persistent requests");
    return Outcome::failed(code);
  }
  operation.request = mpi.handle_at(request, 0);
  operations().by_request.insert(operation.request, &operation);
  return kNothingToDo;
}

Outcome Launch::hand_out_finished(void* request) {
  const Library& mpi = library();
  drop();
  const int code = mpi.Grequest_start(query, forget_operation, cancel, nullptr, request);
  if (code == 0) mpi.Grequest_complete(mpi.handle_at(request, 0));
  return Outcome::over(code);
}

void Launch::count() const {
  if (!job_.reports) return;
  const int64_t took = time_ns() - began_;
  if (outcome_.kind == Outcome::kMpi)
    job_.counters.mpi_call(function_, form_, outcome_.reason, took);
  else if (form_ == Form::kNonblocking)
    job_.counters.engine_call(function_, form_, bytes_, took);
}

Operation* find_operation(Handle request) { return operations().by_request.find(request); }

bool operations_under_way() { return operations().under_way.load(std::memory_order_relaxed) != 0; }

void forget_error(Operation& operation) {
  if (operation.code.exchange(0) != 0) --operations().failed;
}

bool operations_failed() { return operations().failed.load(std::memory_order_relaxed) != 0; }

void keep_moving() {
  begin_moving();
  if (!operations().stays.exchange(true)) ++operations().under_way;
}

int start_operation(Operation& operation, void* request, Untold& untold) {
  Job& job = the_job();
  const int64_t began = job.reports ? time_ns() : 0;
  const Library& mpi = library();
  if (const int code = mpi.Start(request); code != 0) return code;
  if (const Handle now = mpi.handle_at(request, 0); now != operation.request) [[unlikely]] {
    operations().by_request.erase(operation.request);  // Open MPI may make another one of it
    operation.request = now;
    operations().by_request.insert(now, &operation);
  }
  forget_error(operation);
  Outcome outcome = kNothingToDo;
  if (operation.engine != nullptr) {
    const Attempt attempt = attempt_of(operation);
    operation.described.note(job, *operation.own);
    if (!operation.described.load(job)) {
      outcome = attempt.give_up();
    } else if (const ibcoll_status status = give_to_engine(operation); status != IBCOLL_OK) {
      outcome = attempt.failed(status);
    } else {
      operation.claimed = true;
      begin(operation, true);
    }
  }
  const bool is_under_way = operation.engine != nullptr && outcome.code == 0;
  if (is_under_way)
    look_at(operation);
  else
    complete(operation);
  if (job.reports)
    job.counters.engine_call(operation.function, Form::kPersistent, operation.described.bytes,
                             time_ns() - began);
  if (outcome.untold) untold.set(*operation.on, outcome.code);
  return outcome.code;
}

void settle(Operation& operation) {
  while (operation.state == Operation::kUnderWay) {
    if (!claim(operation)) {
      sched_yield();
    } else if (operation.state == Operation::kUnderWay) {
      post_before_waiting_for(operation);
      end(operation,
          operation.refused != IBCOLL_OK ? operation.refused : ibcoll_wait(operation.engine));
    } else {
      operation.claimed = false;
    }
  }
}

int free_persistent(Operation& operation, void* request) {
  const Library& mpi = library();
  while (!claim(operation)) sched_yield();
  const bool under_way = operation.state == Operation::kUnderWay;
  operation.is_freed = under_way;
  operations().by_request.erase(operation.request);
  operation.claimed.store(false, std::memory_order_release);
  // MPICH loses a receive that is freed before its message has come.
  const int code = under_way ? 0 : mpi.Request_free(request);
  if (under_way) mpi.set_handle(request, mpi.constants.request_null);
  let_go(operation);
  return code;
}

void poll_operations() {
  if (WithoutPolling::is() || !operations_under_way()) return;
  const WithoutPolling round;
  const Inside inside;
  const ibcoll_status status = ibcoll_progress(the_job().context, nullptr);
  const bool over = status != IBCOLL_OK && status != IBCOLL_ERR_INVALID;
  Operation* ended = take_ended(over);
  while (ended != nullptr) {
    Operation& operation = *ended;
    ended = std::exchange(operation.next, nullptr);
    finish(operation, test(operation));
  }
}

void stop_moving() {
  if (operations().stays.exchange(false)) --operations().under_way;
  end_moving();
}

void end_operations() {
  while (operations().under_way > (operations().stays ? 1 : 0)) {
    poll_operations();
    move_the_mpi(the_job());  // peers may need a message of this rank's first
    sched_yield();
  }
  // What the program has prepared and not freed is the MPI's to speak of.
  Operations& of = operations();
  const std::lock_guard lock(of.pool_mutex);
  for (Operation& operation : of.all)
    if (operation.on != nullptr) give_back(operation);
}

}  // namespace ibcoll::mpi
