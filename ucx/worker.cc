#include "ucx/worker.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/quiet_thread.h"
#include "engine/base/units.h"

namespace ibcoll::ucx {
namespace {

/// A setting that a user may make by a variable of UCX's, and that the engine makes else.
struct Setting {
  const char* variable;
  const char* name;
  const char* old_name;  ///< before UCX 1.17, which looks for names of transports with a prefix
  const char* value;
};
/// Else making a connection blocks in the kernel for as long as the peer's machine is silent.
constexpr Setting kConnectsInBackground = {"UCX_TCP_CONN_NB", "TCP_CONN_NB", "CONN_NB", "y"};
/// A message that UCX has copied counts as sent although part of it may wait for UCX's next turn;
/// one that is sent from where it lies counts when the kernel has it.
constexpr Setting kSendsFromMemory = {"UCX_ZCOPY_THRESH", "ZCOPY_THRESH", "ZCOPY_THRESH", "0"};

/// UCX's own shared memory: of POSIX's, a rank that is killed leaves files in /dev/shm, and with
/// both, the names of sockets that others wait on are open to everybody. Ranks of one server share
/// the engine's.
constexpr Setting kNoFiles = {"UCX_TLS", "TLS", "TLS", "^posix,sysv"};

/// The gate tells where connections come from. (UCX does since 1.18.)
constexpr Setting kConnectsFromAnywhere = {"UCX_TCP_EP_BIND_SRC_ADDR", "TCP_EP_BIND_SRC_ADDR",
                                           nullptr, "n"};

/// Whether it is UCX 1.`minor` or a later one.
bool is_at_least(const Library& ucp, int minor) {
  int has_major = 0, has_minor = 0;
  return std::sscanf(ucp.get_version_string(), "%d.%d", &has_major, &has_minor) == 2 &&
         (has_major > 1 || has_minor >= minor);
}

/// UCX warns of a name that it does not know, so it is given the one that it does.
void apply(const Library& ucp, ucp_config_t* config, const Setting& setting) {
  if (getenv(setting.variable) != nullptr) return;
  const char* const name = is_at_least(ucp, 17) ? setting.name : setting.old_name;
  if (name != nullptr) ucp.config_modify(config, name, setting.value);
}

/// Transports inside a machine notice no peer that dies, and UCX makes no connection over them
/// alone.
bool leaves_machine(const Resource& resource) {
  constexpr std::string_view kInside[] = {"posix", "sysv", "cma", "knem", "xpmem"};
  return std::find(std::begin(kInside), std::end(kInside), resource.transport) == std::end(kInside);
}

}  // namespace

Result<std::unique_ptr<UcpContext>> UcpContext::open() {
  IBCOLL_ASSIGN(std::unique_ptr<UcpContext> context, open(false));
  const std::vector<Resource> resources = context->resources();
  if (resources.empty())
    return fail(ErrorCode::kUnsupported,
                "UCX finds nothing that reaches other processes (UCX_TLS, UCX_NET_DEVICES)");
  if (std::none_of(resources.begin(), resources.end(), leaves_machine))
    return fail(ErrorCode::kUnsupported,
                "UCX finds no network, but only {}: add one to UCX_TLS, such as tcp",
                describe(resources));
  // Networks that write by themselves also send by themselves.
  if (any_writes_by_itself(resources)) return context;
  context.reset();
  return open(true);
}

Result<std::unique_ptr<UcpContext>> UcpContext::open(bool sends_from_memory) {
  IBCOLL_ASSIGN(const Library* const ucp, library());
  std::unique_ptr<UcpContext> context(new UcpContext(*ucp));
  forget_messages();
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp->config_read(nullptr, nullptr, &config);
  if (status != UCS_OK)
    return fail(ErrorCode::kInvalidArgument, "UCX can't read its settings: {}",
                explain(*ucp, status));
  apply(*ucp, config, kConnectsInBackground);
  apply(*ucp, config, kNoFiles);
  if (is_at_least(*ucp, 18)) apply(*ucp, config, kConnectsFromAnywhere);
  if (sends_from_memory) apply(*ucp, config, kSendsFromMemory);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.name = "ibcoll";
  status = ucp->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context->handle_);
  ucp->config_release(config);
  if (status != UCS_OK)
    return fail(ErrorCode::kUnsupported, "UCX finds no network to use: {}", explain(*ucp, status));
  return context;
}

UcpContext::~UcpContext() {
  if (handle_ != nullptr) ucp_.cleanup(handle_);
}

std::vector<Resource> UcpContext::resources() const {
  // There is no other way to ask: lines like "resource 1 : md 1 dev 1 flags -- tcp/eth0".
  char* text = nullptr;
  size_t bytes = 0;
  FILE* const stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  ucp_.context_print_info(handle_, stream);
  std::fclose(stream);
  std::vector<Resource> all;
  for (const std::string_view line : split(std::string_view(text, bytes), '\n')) {
    const size_t begin = line.rfind(' '), slash = line.find('/', begin);
    if (line.find("resource ") == line.npos || begin == line.npos || slash == line.npos) continue;
    Resource resource{std::string(line.substr(begin + 1, slash - begin - 1)),
                      std::string(line.substr(slash + 1))};
    if (resource.transport != "self") all.push_back(std::move(resource));
  }
  std::free(text);
  return all;
}

bool any_writes_by_itself(const std::vector<Resource>& resources) {
  return std::any_of(resources.begin(), resources.end(), [](const Resource& resource) {
    return resource.transport.starts_with("rc") || resource.transport.starts_with("dc");
  });
}

std::string describe(const std::vector<Resource>& resources) {
  std::string text;
  for (const Resource& resource : resources)
    text += fmt::format("{}{}/{}", text.empty() ? "" : ", ", resource.transport, resource.device);
  return text;
}

Result<std::unique_ptr<Worker>> Worker::open(UcpContext& context) {
  const Library& ucp = context.ucp();
  std::unique_ptr<Worker> worker(new Worker(ucp));
  forget_messages();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = UCS_OK;
  {
    const SignalsBlocked blocked;  // it starts a thread
    status = ucp.worker_create(context.handle(), &params, &worker->handle_);
  }
  if (status != UCS_OK)
    return fail(ErrorCode::kSystem, "UCX can't use the network: {}", explain(ucp, status));
  status = ucp.worker_get_efd(worker->handle_, &worker->events_);
  if (status != UCS_OK)
    return fail(ErrorCode::kUnsupported, "UCX gives nothing to sleep on: {}", explain(ucp, status));
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucp.worker_get_address(worker->handle_, &address, &bytes);
  if (status != UCS_OK)
    return fail(ErrorCode::kSystem, "UCX gives no address: {}", explain(ucp, status));
  const auto* const begin = reinterpret_cast<const std::byte*>(address);
  worker->address_.assign(begin, begin + bytes);
  ucp.worker_release_address(worker->handle_, address);
  return worker;
}

Worker::~Worker() {
  if (handle_ != nullptr) ucp_.worker_destroy(handle_);
}

}  // namespace ibcoll::ucx
