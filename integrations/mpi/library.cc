#include "integrations/mpi/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int PMPI_Init(int* argc, char*** argv);  // this library's own

namespace ibcoll::mpi {

namespace {

void* const kNext = RTLD_NEXT;

/// Whether a handle of the dynamic linker's leads to an MPI.
bool has_mpi(void* handle) {
  void* const init = dlsym(handle, "PMPI_Init");
  return init != nullptr && init != reinterpret_cast<void*>(&PMPI_Init);
}

/// Behind this library in the order of symbols; else somewhere in the process, as where a script
/// language has loaded an extension that is linked to the MPI.
void* find_mpi() {
  if (has_mpi(kNext)) return kNext;
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0')
          static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  for (const std::string& name : names) {
    void* const handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (has_mpi(handle)) return handle;
    dlclose(handle);
  }
  std::fprintf(stderr, "ibcoll: an MPI function was called, but no MPI library is loaded\n");
  std::abort();
}

void* mpi_handle() {
  static void* const handle = find_mpi();
  return handle;
}

/// An object of the MPI's. The linker may have moved it into the program, where the MPI uses it,
/// too: then that one comes first in the order of symbols.
void* find_object(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : find_symbol(name);
}

/// What the MPI says it is.
std::string version_text() {
  using Version = int(char* version, int* length);
  auto* const version = reinterpret_cast<Version*>(find_symbol("PMPI_Get_library_version"));
  constexpr size_t kLongest = 8192;  // MPICH's MPI_MAX_LIBRARY_VERSION_STRING, the largest of all
  std::string text(kLongest, '\0');
  int length = 0;
  if (version == nullptr || version(text.data(), &length) != 0) return "";
  return text.c_str();
}

/// The first word that is a number, as in "MPICH Version:\t4.0.2" and "Open MPI v4.1.4, package".
std::string number_in(const std::string& text) {
  const std::string_view blanks = " \t\n,";
  for (size_t at = 0; (at = text.find_first_not_of(blanks, at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(blanks, at), text.size());
    if (text[at] == 'v') ++at;
    if (at < end && text[at] >= '0' && text[at] <= '9') return text.substr(at, end - at);
    at = end;
  }
  return "";
}

/// "": it is none that is known. Those that share MPICH's ABI say so, too.
const char* family_of(const std::string& version) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"Open MPI", "Open MPI"},
                                                            {"MVAPICH", "MVAPICH"},
                                                            {"Intel(R) MPI", "Intel MPI"},
                                                            {"MPICH", "MPICH"}};
  for (const auto& [says, family] : kNames)
    if (version.find(says) != std::string::npos) return family;
  return "";
}

/// Of MPI 5's standard ABI; 0: the MPI has its own. A library that has both answers for the one
/// that the program is linked to.
int standard_abi_version() {
  using Version = int(int* major, int* minor);
  auto* const version = reinterpret_cast<Version*>(find_symbol("PMPI_Abi_get_version"));
  int major = -1, minor = -1;
  return version != nullptr && version(&major, &minor) == 0 && major > 0 ? major : 0;
}

/// Handles and constants as the program has them.
void take_constants(Library& mpi) {
  if (const int abi = standard_abi_version(); abi != 0) {
    mpi.standard_abi = true;
    if (abi == 1) ibcoll_mpi_constants_standard_abi(find_object, &mpi.constants);
    return;
  }
  if (find_symbol("ompi_mpi_comm_world") != nullptr) {
    ibcoll_mpi_constants_openmpi(find_object, &mpi.constants);
  } else if (!mpi.is_open_mpi && mpi.family != std::string_view("")) {
    // Those of MPICH, and of others that share its ABI.
    ibcoll_mpi_constants_mpich(find_object, &mpi.constants);
  }
}

Library* make_library() {
  auto* const made = new Library;
  bool complete = true;
#define IBCOLL_MPI_LOAD(name, parameters)                                       \
  made->name = reinterpret_cast<int(*) parameters>(find_symbol("PMPI_" #name)); \
  complete = complete && made->name != nullptr
  IBCOLL_MPI_FUNCTIONS_USED(IBCOLL_MPI_LOAD);
  IBCOLL_MPI_MORE_FUNCTIONS_USED(IBCOLL_MPI_LOAD);
  const bool has_all = complete;
  IBCOLL_MPI_FUNCTIONS_OF_MPI_4(IBCOLL_MPI_LOAD);
#undef IBCOLL_MPI_LOAD
  const std::string version = version_text();
  made->family = family_of(version);
  made->version = number_in(version);
  made->is_open_mpi = made->family == std::string_view("Open MPI");
  take_constants(*made);
  if (made->constants.handle_mask == 0)
    made->unusable =
        made->standard_abi
            ? "the MPI's standard ABI is newer than version 1, which this library knows"
            : "libibcoll_mpi.so was built without the mpi.h of this MPI's family";
  else if (!has_all)
    made->unusable = "the MPI lacks functions of MPI 3.0";
  return made;
}

}  // namespace

void* find_symbol(const char* name) { return dlsym(mpi_handle(), name); }

void* find_called(const char* name) {
  void* const found = find_symbol(name);
  if (found != nullptr) return found;
  std::fprintf(stderr, "ibcoll: the program has called %s, which its MPI library lacks\n", name);
  std::abort();
}

const Library& library() {
  static const Library* const found = make_library();
  return *found;
}

}  // namespace ibcoll::mpi
