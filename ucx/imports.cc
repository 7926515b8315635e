#include "ucx/imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace ibcoll::ucx {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kCalled = R_X86_64_JUMP_SLOT, kTaken = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr uint64_t kCalled = R_AARCH64_JUMP_SLOT, kTaken = R_AARCH64_GLOB_DAT;
#else
constexpr uint64_t kCalled = UINT64_MAX, kTaken = UINT64_MAX;
#endif

/// What the dynamic section of a loaded library tells.
struct Dynamic {
  explicit Dynamic(const link_map& library) {
    for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_val;
      // The loader of glibc has put the addresses in the place of the offsets.
      const auto* const place = reinterpret_cast<const std::byte*>(value);
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(place);
      if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(place);
      if (entry->d_tag == DT_JMPREL) calls = reinterpret_cast<const ElfW(Rela)*>(place);
      if (entry->d_tag == DT_PLTRELSZ) call_count = value / sizeof(ElfW(Rela));
      if (entry->d_tag == DT_RELA) others = reinterpret_cast<const ElfW(Rela)*>(place);
      if (entry->d_tag == DT_RELASZ) other_count = value / sizeof(ElfW(Rela));
      if (entry->d_tag == DT_PLTREL && value != DT_RELA) calls = nullptr;
    }
  }
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * calls = nullptr;
  const ElfW(Rela) * others = nullptr;
  size_t call_count = 0, other_count = 0;
};

/// Part of a library that is to be written to once its references are resolved; the loader has
/// made it read-only.
struct Sealed {
  ElfW(Addr) base = 0;
  uintptr_t begin = 0, end = 0;
};

Sealed sealed_part(const link_map& library) {
  Sealed sealed{.base = library.l_addr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        auto& found = *static_cast<Sealed*>(argument);
        if (info->dlpi_addr != found.base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type != PT_GNU_RELRO) continue;
          found.begin = info->dlpi_addr + part.p_vaddr;
          found.end = found.begin + part.p_memsz;
        }
        return 1;
      },
      &sealed);
  return sealed;
}

bool write(void** slot, void* value, const Sealed& sealed) {
  const auto at = reinterpret_cast<uintptr_t>(slot);
  if (at < sealed.begin || at >= sealed.end) {
    *slot = value;
    return true;
  }
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* const begin = reinterpret_cast<void*>(at / page * page);
  if (mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return false;
  *slot = value;
  return mprotect(begin, page, PROT_READ) == 0;
}

}  // namespace

bool replace_import(const void* of_library, std::string_view name, void* replacement) {
  Dl_info info{};
  link_map* library = nullptr;
  if (dladdr1(of_library, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) == 0 ||
      library == nullptr)
    return false;
  const Dynamic dynamic(*library);
  if (dynamic.symbols == nullptr || dynamic.names == nullptr) return false;
  const Sealed sealed = sealed_part(*library);
  bool replaced = false;
  const auto look = [&](const ElfW(Rela) * entries, size_t count) {
    for (size_t i = 0; entries != nullptr && i < count; ++i) {
      const uint64_t type = ELF64_R_TYPE(entries[i].r_info);
      if (type != kCalled && type != kTaken) continue;
      const ElfW(Sym)& symbol = dynamic.symbols[ELF64_R_SYM(entries[i].r_info)];
      if (name != dynamic.names + symbol.st_name) continue;
      auto** const slot = reinterpret_cast<void**>(library->l_addr + entries[i].r_offset);
      replaced = *slot == replacement || write(slot, replacement, sealed);
    }
  };
  look(dynamic.calls, dynamic.call_count);
  look(dynamic.others, dynamic.other_count);
  return replaced;
}

}  // namespace ibcoll::ucx
