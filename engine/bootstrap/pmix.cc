#include "engine/bootstrap/process_manager.h"

#include <dlfcn.h>
#include <pmix.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace ibcoll {
namespace {

/// The names libpmix has on systems we know; its ABI of these calls has been the same since 2.0.
constexpr const char* kLibraries[] = {"libpmix.so.2", "libpmix.so"};

/// What we call of libpmix.
struct Library {
  decltype(&::PMIx_Init) init;
  decltype(&::PMIx_Finalize) finalize;
  decltype(&::PMIx_Put) put;
  decltype(&::PMIx_Commit) commit;
  decltype(&::PMIx_Fence) fence;
  decltype(&::PMIx_Get) get;
  decltype(&::PMIx_Error_string) error_string;
};

Result<Library> load_library() {
  void* handle = nullptr;
  std::string why;
  for (const char* name : kLibraries) {
    // Never unloaded: it has threads.
    if ((handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    if (why.empty()) why = dlerror();
  }
  if (handle == nullptr)
    return fail(ErrorCode::kUnsupported,
                "the launcher speaks PMIx, but its library can't be loaded: {}", why);
  Library library{};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  find(library.init, "PMIx_Init");
  find(library.finalize, "PMIx_Finalize");
  find(library.put, "PMIx_Put");
  find(library.commit, "PMIx_Commit");
  find(library.fence, "PMIx_Fence");
  find(library.get, "PMIx_Get");
  find(library.error_string, "PMIx_Error_string");
  if (missing != nullptr)
    return fail(ErrorCode::kUnsupported, "the launcher speaks PMIx, but libpmix has no {}",
                missing);
  return library;
}

class Pmix final : public ProcessManager {
 public:
  explicit Pmix(const Library& library) : library_(library) {}
  ~Pmix() override {
    if (started_) (void)library_.finalize(nullptr, 0);
  }
  std::string name() const override { return "PMIx"; }
  Rank rank() const override { return static_cast<Rank>(me_.rank); }
  int size() const override { return size_; }

  Status start() {
    IBCOLL_TRY(check("PMIx_Init", library_.init(&me_, nullptr, 0)));
    started_ = true;
    pmix_proc_t job = me_;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t* size = nullptr;
    IBCOLL_TRY(
        check("PMIx_Get of the job's size", library_.get(&job, PMIX_JOB_SIZE, nullptr, 0, &size)));
    const bool right = size->type == PMIX_UINT32;
    size_ = right ? static_cast<int>(size->data.uint32) : 0;
    free(size);
    if (!right || rank() >= size_)
      return fail(ErrorCode::kSystem, "the launcher calls this rank {} of {}", rank(), size_);
    return {};
  }

  Result<std::string> broadcast(const std::string& text) override {
    const std::string key = fmt::format(kRootKey, broadcasts_++);
    if (rank() == 0) {
      pmix_value_t value{};
      value.type = PMIX_STRING;
      std::string copy = text;
      value.data.string = copy.data();
      IBCOLL_TRY(check("PMIx_Put", library_.put(PMIX_GLOBAL, key.c_str(), &value)));
      IBCOLL_TRY(check("PMIx_Commit", library_.commit()));
    }
    pmix_info_t info{};
    std::strncpy(info.key, PMIX_COLLECT_DATA, sizeof info.key - 1);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    IBCOLL_TRY(check("PMIx_Fence", library_.fence(nullptr, 0, &info, 1)));
    if (rank() == 0) return text;
    pmix_proc_t root = me_;
    root.rank = 0;
    pmix_value_t* got = nullptr;
    IBCOLL_TRY(
        check("PMIx_Get of rank 0's address", library_.get(&root, key.c_str(), nullptr, 0, &got)));
    std::string result;
    if (got->type == PMIX_STRING) {
      result = got->data.string;
      free(got->data.string);
    }
    free(got);
    return result;
  }

 private:
  Status check(const char* what, pmix_status_t status) const {
    if (status == PMIX_SUCCESS) return {};
    return fail(ErrorCode::kSystem, "{} failed: {}", what, library_.error_string(status));
  }

  const Library library_;
  pmix_proc_t me_{};
  bool started_ = false;
  int size_ = 1;
  int broadcasts_ = 0;
};

}  // namespace

Result<std::unique_ptr<ProcessManager>> connect_pmix() {
  IBCOLL_ASSIGN(const Library library, load_library());
  auto pmix = std::make_unique<Pmix>(library);
  IBCOLL_TRY(pmix->start());
  return std::unique_ptr<ProcessManager>(std::move(pmix));
}

}  // namespace ibcoll
