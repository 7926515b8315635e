#pragma once
/// The library of UCX, loaded when it is first used: programs that need no such network do without.

#include <ucp/api/ucp.h>

#include <string>

#include "engine/base/result.h"

namespace ibcoll::ucx {

/// All that is called of UCP. Tests put functions of their own in the place of some.
struct Library {
// clang-format off
#define IBCOLL_UCP_CALLS(CALL)                                                                    \
  CALL(init_version) CALL(cleanup) CALL(config_read) CALL(config_modify) CALL(config_release)     \
  CALL(context_print_info) CALL(worker_create) CALL(worker_destroy) CALL(worker_query)            \
  CALL(worker_get_address) CALL(worker_release_address) CALL(worker_progress)                     \
  CALL(worker_get_efd) CALL(worker_arm) CALL(worker_set_am_recv_handler) CALL(ep_create)          \
  CALL(ep_close_nbx) CALL(ep_flush_nbx) CALL(ep_print_info) CALL(am_send_nbx)                     \
  CALL(am_recv_data_nbx) CALL(put_nbx) CALL(mem_map) CALL(mem_unmap) CALL(rkey_pack)              \
  CALL(rkey_buffer_release) CALL(ep_rkey_unpack) CALL(rkey_destroy) CALL(request_free)            \
  CALL(request_check_status) CALL(get_version_string)
// clang-format on
#define IBCOLL_UCP_MEMBER(name) decltype(&ucp_##name) name = nullptr;
  IBCOLL_UCP_CALLS(IBCOLL_UCP_MEMBER)
#undef IBCOLL_UCP_MEMBER
  decltype(&ucs_status_string) status_string = nullptr;
};

/// The same each time; stays loaded. What UCX writes goes to the log, unless the program uses UCX,
/// too. The error says why it can't be loaded.
Result<Library*> library();

/// "Destination is unreachable", with what UCX last wrote of it on this thread, if anything.
std::string explain(const Library& ucp, ucs_status_t status);
/// Forgets what was written before, so that explain() tells of what follows.
void forget_messages();

}  // namespace ibcoll::ucx
