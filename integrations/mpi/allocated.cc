// MPI_Alloc_mem and MPI_Free_mem.

#include "integrations/mpi/allocated.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/pages.h"
#include "integrations/mpi/stand_in.h"

namespace ibcoll::mpi {

namespace {

struct Allocated {
  std::mutex mutex;
  std::unordered_map<void*, size_t> taken;  ///< of the engine's, with their lengths
  std::vector<void*> freed;                 ///< by the program, but not yet to the engine
};

Allocated& allocated() {
  static auto* const all = new Allocated;  // programs may free as the process ends
  return *all;
}

/// Null: there is no memory.
void* map(void* place, size_t bytes, int protection, int flags) {
  void* const mapped = mmap(place, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return mapped != MAP_FAILED ? mapped : nullptr;
}

/// The system call itself: what libraries that watch mappings (UCX) put in the function's place
/// forgets the address.
void* remap(void* from, size_t old_bytes, size_t bytes, int flags, void* to = nullptr) {
  return reinterpret_cast<void*>(syscall(SYS_mremap, from, old_bytes, bytes, flags, to));
}

/// What the engine was inside of when it was freed.
void free_rest(Allocated& all, const Job& job) {
  while (!all.freed.empty() && ibcoll_free(job.context, all.freed.back()) == IBCOLL_OK)
    all.freed.pop_back();
}

/// Whether the info asks for addresses that the engine's memory need not have.
bool wants_alignment(Handle info) {
  const Library& mpi = library();
  if (mpi.clean(info) == mpi.constants.info_null) return false;
  constexpr int kLongest = 32;
  std::string value(kLongest + 1, '\0');
  int found = 0;
  if (mpi.Info_get(info, "mpi_minimum_memory_alignment", kLongest, value.data(), &found) != 0)
    return true;  // the MPI says what is wrong
  return found != 0 && std::strtoull(value.c_str(), nullptr, 10) > page_bytes();
}

/// A child of fork() would share what is the engine's with its parent, and with the other ranks
/// that see it: it gets a copy instead, as of all other memory. The parent waits for that, so that
/// the copy is of the moment of the fork. What the system starts programs with (posix_spawn, vfork)
/// does not come here.
int g_copied[2] = {-1, -1};  ///< a pipe from child to parent

void before_fork() {
  Allocated& all = allocated();
  all.mutex.lock();
  if (all.taken.empty() || pipe2(g_copied, O_CLOEXEC) != 0) g_copied[0] = g_copied[1] = -1;
}

void end_copying() {
  for (int& end : g_copied)
    if (end >= 0) close(std::exchange(end, -1));
  allocated().mutex.unlock();
}

void in_parent() {
  if (g_copied[1] >= 0) close(std::exchange(g_copied[1], -1));
  char copied = 0;
  while (g_copied[0] >= 0 && read(g_copied[0], &copied, 1) < 0 && errno == EINTR) {
  }
  end_copying();
}

void in_child() {
  for (const auto& [address, bytes] : allocated().taken) {
    // A network's library may have kept it from the child.
    if (msync(address, bytes, MS_ASYNC) != 0) continue;
    void* const own = map(nullptr, bytes, PROT_READ | PROT_WRITE, 0);
    if (own == nullptr) continue;
    std::memcpy(own, address, bytes);
    (void)remap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address);
  }
  const char copied = 1;
  if (g_copied[1] >= 0 && write(g_copied[1], &copied, 1) < 0) {
    // The parent goes on with the end of the pipe.
  }
  end_copying();
}

/// Null: the memory is to be the MPI's.
void* allocate(Count bytes, Handle info) {
  // The engine gives whole pages, and messages that are shorter are copied anyway.
  if (bytes < static_cast<Count>(page_bytes()) || Inside::is()) return nullptr;
  const Job* const job = running_job();
  if (job == nullptr || job->context == nullptr || wants_alignment(info)) return nullptr;
  const Inside inside;
  Allocated& all = allocated();
  const std::lock_guard lock(all.mutex);
  free_rest(all, *job);
  void* address = nullptr;
  if (ibcoll_alloc(job->context, static_cast<size_t>(bytes), &address) != IBCOLL_OK) return nullptr;
  all.taken.emplace(address, static_cast<size_t>(bytes));
  static const bool copies = pthread_atfork(before_fork, in_parent, in_child) == 0;
  (void)copies;
  return address;
}

/// false: the memory is the MPI's.
bool free(void* address) {
  Allocated& all = allocated();
  const std::lock_guard lock(all.mutex);
  if (all.taken.erase(address) == 0) return false;
  const Job* const job = running_job();
  if (job == nullptr) return true;  // what was left when the engine was: AllocatedStays
  all.freed.push_back(address);
  if (!Inside::is()) {
    const Inside inside;
    free_rest(all, *job);
  }
  return true;
}

}  // namespace

AllocatedStays::AllocatedStays() {
  Allocated& all = allocated();
  const std::lock_guard lock(all.mutex);
  for (const auto& [address, bytes] : all.taken) {
    // Of nothing: makes another mapping of the same pages.
    void* const alias = remap(address, 0, bytes, MREMAP_MAYMOVE);
    if (alias != MAP_FAILED) ranges_.push_back({address, alias, bytes});
  }
}

AllocatedStays::~AllocatedStays() {
  for (const Range& range : ranges_) {
    void* const place =
        map(range.address, range.bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED_NOREPLACE);
    if (place == range.address)
      (void)remap(range.alias, range.bytes, range.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    else
      munmap(range.alias, range.bytes);
  }
}

}  // namespace ibcoll::mpi

using namespace ibcoll::mpi;  // what follows is the MPI's face of that namespace

IBCOLL_MPI_STANDS_IN(Alloc_mem, (Count bytes, Handle info, void* address), {
  static auto* const original = original_of<int(Count, Handle, void*)>("PMPI_Alloc_mem");
  void* const found = address == nullptr ? nullptr : allocate(bytes, info);
  if (found == nullptr) return original(bytes, info, address);
  *static_cast<void**>(address) = found;
  return 0;
})

IBCOLL_MPI_STANDS_IN(Free_mem, (void* address), {
  static auto* const original = original_of<int(void*)>("PMPI_Free_mem");
  return ibcoll::mpi::free(address) ? 0 : original(address);
})
