#include "integrations/mpi/record.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/config.h"
#include "engine/base/output.h"
#include "integrations/mpi/communicators.h"

namespace ibcoll::mpi {

namespace {

struct Record {
  int rank = 0, size = 0;
  Handle world = 0;  ///< a duplicate of MPI_COMM_WORLD, to bring all rows together
  int keyval = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> row;  ///< bytes to each rank
  std::string path;
  std::FILE* file = nullptr;  ///< rank 0's

  std::mutex mutex;  ///< of what follows
  std::unordered_map<Handle, Flows> persistent;
};

Record& record() {
  static auto* const all = new Record;  // the MPI may delete attributes when the process ends
  return *all;
}

int forget_places(Handle, int, void* attribute, void*) {
  delete static_cast<Places*>(attribute);
  return 0;
}

void add(const Flow& flow) {
  record().row[flow.to].fetch_add(flow.bytes, std::memory_order_relaxed);
}

/// On rank 0: why there is none, if there is no file.
std::FILE* open_file(const Result<std::string>& path, std::string& why) {
  if (!path) {
    why = path.error().message;
    return nullptr;
  }
  std::FILE* const file = std::fopen(path->c_str(), "w");
  if (file == nullptr)
    why = fmt::format("IBCOLL_MPI_RECORD: {}", fail_to_write(*path).value().message);
  return file;
}

void write_rows() {
  const Library& mpi = library();
  Record& all = record();
  std::vector<uint64_t> row(static_cast<size_t>(all.size));
  fmt::print(all.file, "# tasks {}\n", all.size);
  for (int from = 0; from < all.size; ++from) {
    for (int to = 0; to < all.size && from == 0; ++to) row[to] = all.row[to];
    if (from != 0)
      mpi.Recv(row.data(), all.size, mpi.constants.type_uint64, from, 0, all.world,
               mpi.constants.status_ignore);
    for (int to = 0; to < all.size; ++to)
      if (row[to] != 0) fmt::print(all.file, "{} {} {}\n", from, to, row[to]);
  }
  const bool written = std::fflush(all.file) == 0 && std::ferror(all.file) == 0;
  if (!written) say(fail_to_write(all.path).value().message.c_str());
  std::fclose(all.file);
}

}  // namespace

void begin_record(const Job& job) {
  const Library& mpi = library();
  Record& all = record();
  Handle parent = mpi.constants.comm_null;
  if (job.session == 0) mpi.Comm_get_parent(&(parent = 0));
  const Result<std::string> path = config_string("IBCOLL_MPI_RECORD");
  uint64_t records = 0;
  // Processes that were spawned have the environment of those that spawned them, and their file.
  if (job.rank == 0 && mpi.clean(parent) == mpi.constants.comm_null && !(path && path->empty())) {
    std::string why;
    all.file = open_file(path, why);
    if (all.file == nullptr) say(why.c_str());
    records = all.file != nullptr ? 1 : 0;
  }
  mpi.Bcast(&records, 1, mpi.constants.type_uint64, 0, job.world);
  if (records != 0) {
    if (path) all.path = *path;
    all.rank = job.rank;
    all.size = job.size;
    all.row = std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(job.size));
    mpi.Comm_create_keyval(copy_nothing, forget_places, &all.keyval, nullptr);
    mpi.Comm_dup(job.world, &all.world);
  }
  detail::g_recording = records != 0 ? Recording::kOn : Recording::kOff;
}

void end_record() {
  if (!is_recording()) return;
  detail::g_recording = Recording::kOff;
  const Inside inside;
  const Library& mpi = library();
  Record& all = record();
  if (all.rank == 0)
    write_rows();
  else
    mpi.Send(all.row.get(), all.size, mpi.constants.type_uint64, 0, 0, all.world);
  mpi.Comm_free(&all.world);
  mpi.Comm_free_keyval(&all.keyval);
}

const Places* find_places(Handle given) {
  const Library& mpi = library();
  const Handle comm = mpi.clean(given);
  if (comm == mpi.constants.comm_null) return nullptr;
  Places* places = nullptr;
  int found = 0;
  // First without the lock: of what is no communicator an error handler hears, which may not come
  // back.
  if (mpi.Comm_get_attr(comm, record().keyval, &places, &found) != 0) return nullptr;
  if (found != 0) return places;
  // Several threads may come with a communicator that is new: what one has set none may replace.
  const std::lock_guard lock(record().mutex);
  if (mpi.Comm_get_attr(comm, record().keyval, &places, &found) != 0) return nullptr;
  if (found != 0) return places;
  places = new Places;
  int is_inter = 0, size = 0;
  mpi.Comm_test_inter(comm, &is_inter);
  mpi.Comm_size(comm, &size);
  mpi.Comm_rank(comm, &places->rank);
  if (is_inter == 0) places->world = ranks_in_world(comm, size);
  for (int& rank : places->world)
    if (rank == mpi.constants.undefined || rank == record().rank) rank = -1;
  if (mpi.Comm_set_attr(comm, record().keyval, places) == 0) return places;
  delete places;
  return nullptr;
}

uint64_t bytes_of(Count count, Handle type) {
  Count size = 0;
  if (count <= 0 || library().Type_size_x(type, &size) != 0 || size <= 0) return 0;
  return static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

void note(const Flows& flows) {
  for (const Flow& flow : flows) add(flow);
}

void note_persistent(const void* request, Flows flows) {
  const std::lock_guard lock(record().mutex);
  record().persistent.insert_or_assign(library().handle_at(request, 0), std::move(flows));
}

NoteOfStart::NoteOfStart(const void* requests, int count) : requests_(requests) {
  for (int i = 0; requests != nullptr && i < count; ++i)
    before_.push_back(library().handle_at(requests, i));
}

int NoteOfStart::seen(int code) const {
  if (code != 0) return code;
  auto& known = record().persistent;
  const std::lock_guard lock(record().mutex);
  for (size_t i = 0; i < before_.size(); ++i) {
    auto found = known.extract(before_[i]);
    if (found.empty()) continue;
    note(found.mapped());
    found.key() = library().handle_at(requests_, static_cast<int>(i));
    known.insert(std::move(found));
  }
  return code;
}

void note_request_freed(const void* request) {
  const std::lock_guard lock(record().mutex);
  record().persistent.erase(library().handle_at(request, 0));
}

}  // namespace ibcoll::mpi
