#include "engine/bootstrap/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

namespace ibcoll {

Result<std::shared_ptr<SharedMapping>> SharedMapping::make(size_t bytes, std::string_view name) {
  const std::string label = fmt::format("ibcoll-{}", name);
  UniqueFd fd(memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("cannot create shared memory");
  rlimit largest{};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < bytes) {
    return fail(ErrorCode::kNoMemory,
                "shared memory of {} bytes is more than files may have ({}: ulimit -f); "
                "IBCOLL_HEAP makes it less",
                bytes, largest.rlim_cur);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(fmt::format("cannot make shared memory of {} bytes", bytes));
  // Nobody can shrink it under a peer that touches it.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return map(std::move(fd), bytes);
}

Result<std::shared_ptr<SharedMapping>> SharedMapping::map(UniqueFd memory, size_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (data == MAP_FAILED)
    return fail_errno(
        fmt::format("cannot map {} bytes of shared memory (IBCOLL_HEAP makes it less)", bytes));
  // Writing a core dump would touch every page, the unused ones of the heaps as well. Kernels that
  // can't leave memory out write it all.
  madvise(data, bytes, MADV_DONTDUMP);
  return std::shared_ptr<SharedMapping>(
      new SharedMapping(std::move(memory), static_cast<std::byte*>(data), bytes));
}

SharedMapping::~SharedMapping() { munmap(data_, size_); }

}  // namespace ibcoll
