// Preloaded (LD_PRELOAD) under a program, makes the RDMA devices it sees look like others, as the
// environment says:
//   SHIM_LIMITS=max_qp=6,max_inline=0   smaller limits, per process: max_qp, max_qp_wr, max_sge,
//                                       max_inline, max_rd_atomic, max_cq, max_cqe, max_srq,
//                                       max_srq_wr, max_mr, max_mr_size; asking for more fails as
//                                       with a device
//   SHIM_FAIL=ibv_reg_mr:3              the third call of that function fails with ENOMEM, as do
//                                       all after it with "ibv_reg_mr:3+"
//   SHIM_SHUFFLE=7                      completions of different queue pairs come in any order
//   SHIM_SLOW=rxe3                      that device's ports have 2 Gbit/s (1xSDR)
//   SHIM_INFINIBAND=rxe4                that device's ports say that they are InfiniBand, and need
//                                       the global route header that Soft-RoCE has to get
//   SHIM_SERVICE_LEVEL=5                librdmacm gets answers from a subnet manager: that service
//                                       level, and packets of 2048 bytes, for all paths
//   SHIM_PKEYS=0x7fff,0x8001            the partition keys of all ports, in place of their one
//   SHIM_GIDS=7=::ffff:10.99.0.1@0      GIDs that each port lists first, with their indices and the
//                                       numbers of their interfaces; nothing can be sent from them
//   SHIM_VECTORS=3                      so many completion vectors; queues use the real ones
//   SHIM_TELL=1                         says on standard error what a program does not: how memory
//                                       is registered, which completion vectors, partitions and
//                                       ways are used, how often devices are listed, and which
//                                       completion queues broken connections might overflow, had
//                                       they no more entries than was asked for
//   SHIM_DEVICE=rxe2                    limits and failures are of that device only

#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#if __has_include(<rdma/rdma_cma.h>)
#include <rdma/rdma_cma.h>
#define SHIM_HAVE_RDMACM 1
#endif
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace {

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// A limit as SHIM_LIMITS says, else `otherwise`.
long limit(const char* name, long otherwise) {
  const std::string all = "," + setting("SHIM_LIMITS"), key = std::string(",") + name + "=";
  const size_t place = all.find(key);
  return place == std::string::npos ? otherwise : std::atol(all.c_str() + place + key.size());
}

bool concerned(const ibv_context* context) {
  const std::string device = setting("SHIM_DEVICE");
  return device.empty() || context == nullptr || device == ibv_get_device_name(context->device);
}

/// Whether this call of a function is one that SHIM_FAIL lets fail.
bool fails(const char* function, const ibv_context* context) {
  static const std::string which = setting("SHIM_FAIL");
  static std::atomic<long> calls{0};
  const size_t colon = which.find(':');
  if (which.substr(0, colon) != function || !concerned(context)) return false;
  const long first = std::atol(which.c_str() + colon + 1), call = ++calls;
  if (call < first || (call > first && which.back() != '+')) return false;
  errno = ENOMEM;
  return true;
}

template <class Function>
Function* next(Function*, const char* name, const char* version = "IBVERBS_1.1") {
  void* found = dlvsym(RTLD_NEXT, name, version);
  if (found == nullptr) std::fprintf(stderr, "device_shim: no %s\n", name), std::abort();
  return reinterpret_cast<Function*>(found);
}
#define REAL(function) next(&function, #function)

/// Says something of a device, in one piece.
void tell(const ibv_context* context, const std::string& what) {
  if (setting("SHIM_TELL").empty()) return;
  const std::string device = context == nullptr ? "all" : ibv_get_device_name(context->device);
  const std::string line = "device_shim: " + device + ": " + what + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// How many objects of a kind there are; one more fails at the limit.
class Count {
 public:
  explicit Count(const char* name) : name_(name) {}
  bool full(const ibv_context* context) const {
    if (!concerned(context) || count_ < limit(name_, LONG_MAX)) return false;
    errno = ENOMEM;
    return true;
  }
  void add(const void* made) { count_ += made != nullptr ? 1 : 0; }
  void remove() { --count_; }

 private:
  const char* name_;
  std::atomic<long> count_{0};
};
Count queue_pairs("max_qp"), completion_queues("max_cq"), receive_queues("max_srq"),
    registrations("max_mr");

bool exceeds(const ibv_context* context, const char* name, long wanted) {
  if (!concerned(context) || wanted <= limit(name, LONG_MAX)) return false;
  errno = EINVAL;
  return true;
}

/// The partition keys of SHIM_PKEYS.
std::vector<uint16_t> partition_keys() {
  std::vector<uint16_t> keys;
  const std::string all = setting("SHIM_PKEYS");
  for (size_t begin = 0; begin < all.size(); begin = all.find(',', begin) + 1) {
    keys.push_back(static_cast<uint16_t>(std::strtoul(all.c_str() + begin, nullptr, 16)));
    if (all.find(',', begin) == std::string::npos) break;
  }
  return keys;
}

/// Of a completion queue. Soft-RoCE gives up to twice the entries that it is asked for.
struct QueueUse {
  long entries = 0;       ///< that were asked for
  long may_complete = 0;  ///< at once, where connections break
};
std::map<const ibv_cq*, QueueUse> g_queue_uses;
void note_use(const ibv_cq* queue, uint32_t requests) {
  QueueUse& use = g_queue_uses[queue];
  use.may_complete += requests;
  if (use.may_complete > use.entries)
    tell(queue->context, "a completion queue of " + std::to_string(use.entries) +
                             " may overflow: " + std::to_string(use.may_complete));
}

/// The GIDs of SHIM_GIDS; Soft-RoCE's devices have one port.
std::vector<ibv_gid_entry> more_gids() {
  std::vector<ibv_gid_entry> all;
  const std::string text = setting("SHIM_GIDS");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t address = text.find('=', begin) + 1, number = text.find('@', begin) + 1;
    ibv_gid_entry entry{};
    entry.gid_index = static_cast<uint32_t>(std::atol(text.c_str() + begin));
    entry.port_num = 1;
    entry.gid_type = IBV_GID_TYPE_ROCE_V2;
    entry.ndev_ifindex = static_cast<uint32_t>(std::atol(text.c_str() + number));
    inet_pton(AF_INET6, text.substr(address, number - 1 - address).c_str(), entry.gid.raw);
    all.push_back(entry);
    begin = end + 1;
  }
  return all;
}

ibv_context_ops real_ops;
decltype(verbs_context::query_port) real_query_port;
std::mutex mutex;

/// Shuffles what one poll gives; of each queue pair the order stays.
void shuffle(std::vector<ibv_wc>& done) {
  static std::mt19937 random(static_cast<uint32_t>(std::atol(setting("SHIM_SHUFFLE").c_str())));
  std::vector<ibv_wc> result;
  while (!done.empty()) {
    const uint32_t queue_pair = done[random() % done.size()].qp_num;
    const auto first = std::find_if(done.begin(), done.end(), [queue_pair](const ibv_wc& entry) {
      return entry.qp_num == queue_pair;
    });
    result.push_back(*first);
    done.erase(first);
  }
  done = std::move(result);
}

int poll_cq(ibv_cq* queue, int entries, ibv_wc* out) {
  if (fails("ibv_poll_cq", queue->context)) return -1;
  if (setting("SHIM_SHUFFLE").empty()) return real_ops.poll_cq(queue, entries, out);
  const std::lock_guard lock(mutex);
  static std::map<ibv_cq*, std::vector<ibv_wc>> kept;
  std::vector<ibv_wc>& waiting = kept[queue];
  ibv_wc part[64];
  std::vector<ibv_wc> fresh;
  for (int got = 1; got > 0;) {
    got = real_ops.poll_cq(queue, 64, part);
    if (got < 0) return got;
    fresh.insert(fresh.end(), part, part + got);
  }
  waiting.insert(waiting.end(), fresh.begin(), fresh.end());
  if (!fresh.empty()) shuffle(waiting);
  const auto count = std::min(waiting.size(), static_cast<size_t>(entries));
  std::copy_n(waiting.begin(), count, out);
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<int>(count);
}

int post_send(ibv_qp* queue_pair, ibv_send_wr* first, ibv_send_wr** bad) {
  if (fails("ibv_post_send", queue_pair->context)) return *bad = first, ENOMEM;
  for (const ibv_send_wr* work = first; work != nullptr; work = work->next)
    if ((work->send_flags & IBV_SEND_INLINE) != 0 && work->num_sge == 1 &&
        exceeds(queue_pair->context, "max_inline", work->sg_list->length))
      return *bad = first, EINVAL;
  return real_ops.post_send(queue_pair, first, bad);
}
int post_recv(ibv_qp* queue_pair, ibv_recv_wr* first, ibv_recv_wr** bad) {
  if (fails("ibv_post_recv", queue_pair->context)) return *bad = first, ENOMEM;
  return real_ops.post_recv(queue_pair, first, bad);
}
int post_srq_recv(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** bad) {
  if (fails("ibv_post_srq_recv", queue->context)) return *bad = first, ENOMEM;
  return real_ops.post_srq_recv(queue, first, bad);
}
int req_notify_cq(ibv_cq* queue, int solicited_only) {
  if (fails("ibv_req_notify_cq", queue->context)) return ENOMEM;
  return real_ops.req_notify_cq(queue, solicited_only);
}
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t bytes) {
  if (fails("ibv_query_port", context)) return ENOMEM;
  const int error = real_query_port(context, port, attributes, bytes);
  const std::string name = ibv_get_device_name(context->device);
  if (error == 0 && name == setting("SHIM_SLOW"))
    attributes->active_speed = attributes->active_width = 1;
  if (error == 0 && name == setting("SHIM_INFINIBAND")) {
    attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
    attributes->flags |= IBV_QPF_GRH_REQUIRED;
  }
  if (const auto keys = partition_keys(); error == 0 && !keys.empty())
    attributes->pkey_tbl_len = static_cast<uint16_t>(keys.size());
  return error;
}

#if SHIM_HAVE_RDMACM
#define REAL_CM(function) next(&function, #function, "RDMACM_1.0")

/// Whether librdmacm finds paths, each at once, and does nothing else. The file of a channel of
/// events is then an eventfd, whose count is the type of the next one plus one.
bool has_manager() { return !setting("SHIM_SERVICE_LEVEL").empty(); }
int happens(const rdma_cm_id* id, rdma_cm_event_type type) {
  return eventfd_write(id->channel->fd, static_cast<eventfd_t>(type) + 1);
}
#endif

}  // namespace

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* context = REAL(ibv_open_device)(device);
  if (context == nullptr) return nullptr;
  if (const long vectors = std::atol(setting("SHIM_VECTORS").c_str()); vectors > 0)
    context->num_comp_vectors = static_cast<int>(vectors);
  if (fails("ibv_open_device", context)) {
    ibv_close_device(context);
    errno = ENOMEM;
    return nullptr;
  }
  const std::lock_guard lock(mutex);
  if (context->ops.poll_cq == poll_cq) return context;
  real_ops = context->ops;
  context->ops.poll_cq = poll_cq;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->ops.post_srq_recv = post_srq_recv;
  context->ops.req_notify_cq = req_notify_cq;
  if (verbs_context* extended = verbs_get_ctx_op(context, query_port)) {
    real_query_port = extended->query_port;
    extended->query_port = query_port;
  }
  return context;
}

ibv_device** ibv_get_device_list(int* count) {
  tell(nullptr, "devices are listed");
  return REAL(ibv_get_device_list)(count);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (fails("ibv_query_device", context)) return ENOMEM;
  const int error = REAL(ibv_query_device)(context, attributes);
  if (error != 0 || !concerned(context)) return error;
  const auto lower = [](const char* name, auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(
        std::min<unsigned long>(value, static_cast<unsigned long>(limit(name, LONG_MAX))));
  };
  lower("max_qp", attributes->max_qp);
  lower("max_qp_wr", attributes->max_qp_wr);
  lower("max_sge", attributes->max_sge);
  lower("max_rd_atomic", attributes->max_qp_rd_atom);
  lower("max_cq", attributes->max_cq);
  lower("max_cqe", attributes->max_cqe);
  lower("max_srq", attributes->max_srq);
  lower("max_srq_wr", attributes->max_srq_wr);
  lower("max_mr", attributes->max_mr);
  lower("max_mr_size", attributes->max_mr_size);
  return 0;
}

int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  if (fails("ibv_query_pkey", context)) return -1;
  if (const auto keys = partition_keys(); !keys.empty()) {
    if (index < 0 || static_cast<size_t>(index) >= keys.size()) return -1;
    *pkey = htons(keys[static_cast<size_t>(index)]);
    return 0;
  }
  return REAL(ibv_query_pkey)(context, port, index, pkey);
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (fails("ibv_alloc_pd", context)) return nullptr;
  return REAL(ibv_alloc_pd)(context);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (fails("ibv_create_comp_channel", context)) return nullptr;
  return next(&ibv_create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0")(context);
}

#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* base, size_t bytes, int access) {
  if (fails("ibv_reg_mr", domain->context) || registrations.full(domain->context) ||
      exceeds(domain->context, "max_mr_size", static_cast<long>(bytes)))
    return nullptr;
  ibv_mr* region = REAL(ibv_reg_mr)(domain, base, bytes, access);
  registrations.add(region);
  return region;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* base, size_t bytes, uint64_t iova,
                         unsigned int access) {
  if (fails("ibv_reg_mr", domain->context) || registrations.full(domain->context) ||
      exceeds(domain->context, "max_mr_size", static_cast<long>(bytes)))
    return nullptr;
  if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) tell(domain->context, "relaxed ordering");
  ibv_mr* region =
      next(&ibv_reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8")(domain, base, bytes, iova, access);
  registrations.add(region);
  return region;
}
int ibv_dereg_mr(ibv_mr* region) {
  registrations.remove();
  return REAL(ibv_dereg_mr)(region);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                      int vector) {
  if (fails("ibv_create_cq", context) || completion_queues.full(context) ||
      exceeds(context, "max_cqe", entries))
    return nullptr;
  tell(context, "completion vector " + std::to_string(vector));
  if (!setting("SHIM_VECTORS").empty()) vector = 0;
  ibv_cq* queue = REAL(ibv_create_cq)(context, entries, user, channel, vector);
  completion_queues.add(queue);
  if (queue != nullptr) g_queue_uses[queue].entries = entries;
  return queue;
}
int ibv_resize_cq(ibv_cq* queue, int entries) {
  if (fails("ibv_resize_cq", queue->context)) return ENOMEM;
  if (exceeds(queue->context, "max_cqe", entries)) return EINVAL;
  const int error = REAL(ibv_resize_cq)(queue, entries);
  if (error == 0) {
    g_queue_uses[queue].entries = entries;
    tell(queue->context, "a completion queue grows");
  }
  return error;
}
int ibv_destroy_cq(ibv_cq* queue) {
  g_queue_uses.erase(queue);
  completion_queues.remove();
  return REAL(ibv_destroy_cq)(queue);
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* wanted) {
  ibv_context* context = domain->context;
  if (fails("ibv_create_srq", context) || receive_queues.full(context) ||
      exceeds(context, "max_srq_wr", wanted->attr.max_wr))
    return nullptr;
  ibv_srq* queue = REAL(ibv_create_srq)(domain, wanted);
  receive_queues.add(queue);
  return queue;
}
int ibv_destroy_srq(ibv_srq* queue) {
  receive_queues.remove();
  return REAL(ibv_destroy_srq)(queue);
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  ibv_context* context = domain->context;
  if (fails("ibv_create_qp", context) || queue_pairs.full(context) ||
      exceeds(context, "max_qp_wr", wanted->cap.max_send_wr) ||
      exceeds(context, "max_qp_wr", wanted->cap.max_recv_wr) ||
      exceeds(context, "max_sge", wanted->cap.max_send_sge) ||
      exceeds(context, "max_inline", wanted->cap.max_inline_data))
    return nullptr;
  // Devices may give more.
  const uint32_t sends = wanted->cap.max_send_wr, receives = wanted->cap.max_recv_wr;
  ibv_qp* queue_pair = REAL(ibv_create_qp)(domain, wanted);
  if (queue_pair != nullptr && concerned(context))
    wanted->cap.max_inline_data = static_cast<uint32_t>(
        std::min<long>(wanted->cap.max_inline_data, limit("max_inline", LONG_MAX)));
  queue_pairs.add(queue_pair);
  if (queue_pair != nullptr) {
    note_use(wanted->send_cq, sends);
    if (wanted->srq == nullptr) note_use(wanted->recv_cq, receives);
  }
  return queue_pair;
}
int ibv_destroy_qp(ibv_qp* queue_pair) {
  queue_pairs.remove();
  return REAL(ibv_destroy_qp)(queue_pair);
}

int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  ibv_context* context = queue_pair->context;
  if (fails("ibv_modify_qp", context)) return ENOMEM;
  if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 &&
       exceeds(context, "max_rd_atomic", attributes->max_rd_atomic)) ||
      ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 &&
       exceeds(context, "max_rd_atomic", attributes->max_dest_rd_atomic)))
    return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0)
    tell(context, "partition of index " + std::to_string(attributes->pkey_index));
  if ((mask & IBV_QP_AV) != 0)
    tell(context, "way with traffic class " +
                      std::to_string(attributes->ah_attr.grh.traffic_class) + ", service level " +
                      std::to_string(attributes->ah_attr.sl) + ", packets of " +
                      std::to_string(128 << attributes->path_mtu));
  ibv_qp_attr real = *attributes;
  if (!setting("SHIM_PKEYS").empty()) real.pkey_index = 0;
  return REAL(ibv_modify_qp)(queue_pair, &real, mask);
}

ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  if (fails("ibv_create_ah", domain->context)) return nullptr;
  return REAL(ibv_create_ah)(domain, attributes);
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t count,
                             uint32_t flags, size_t entry_bytes) {
  if (fails("ibv_query_gid_table", context)) return -ENOMEM;
  const std::vector<ibv_gid_entry> more = more_gids();
  if (entry_bytes != sizeof(ibv_gid_entry) || count < more.size()) return -EINVAL;
  std::copy(more.begin(), more.end(), entries);
  const ssize_t real = next(&_ibv_query_gid_table, "_ibv_query_gid_table", "IBVERBS_1.11")(
      context, entries + more.size(), count - more.size(), flags, entry_bytes);
  return real < 0 ? real : real + static_cast<ssize_t>(more.size());
}

#if SHIM_HAVE_RDMACM

rdma_event_channel* rdma_create_event_channel() {
  if (!has_manager()) return REAL_CM(rdma_create_event_channel)();
  return new rdma_event_channel{eventfd(0, EFD_CLOEXEC)};
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  if (!has_manager()) return REAL_CM(rdma_destroy_event_channel)(channel);
  close(channel->fd);
  delete channel;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space space) {
  if (!has_manager()) return REAL_CM(rdma_create_id)(channel, id, context, space);
  *id = new rdma_cm_id{};
  (*id)->channel = channel;
  return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
  if (!has_manager()) return REAL_CM(rdma_destroy_id)(id);
  delete id->route.path_rec;
  delete id;
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms) {
  if (!has_manager()) return REAL_CM(rdma_resolve_addr)(id, from, to, timeout_ms);
  return happens(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}
int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  if (!has_manager()) return REAL_CM(rdma_resolve_route)(id, timeout_ms);
  id->route.path_rec = new ibv_sa_path_rec{};
  id->route.path_rec->sl = static_cast<uint8_t>(std::atol(setting("SHIM_SERVICE_LEVEL").c_str()));
  id->route.path_rec->mtu = IBV_MTU_2048;
  id->route.num_paths = 1;
  return happens(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (!has_manager()) return REAL_CM(rdma_get_cm_event)(channel, event);
  eventfd_t count = 0;
  if (eventfd_read(channel->fd, &count) != 0) return -1;
  *event = new rdma_cm_event{};
  (*event)->event = static_cast<rdma_cm_event_type>(count - 1);
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  if (!has_manager()) return REAL_CM(rdma_ack_cm_event)(event);
  delete event;
  return 0;
}

#endif

}  // extern "C"
