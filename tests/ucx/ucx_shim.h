#pragma once
/// Stands between the UCX transport and UCP, in this process: does all that UCP may do with what it
/// is given, or fails a call. One TCP connection orders everything by itself.

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ucx/library.h"

namespace ibcoll::testing {

class UcxShim {
 public:
  /// From now on what is sent leaves late and in any order, its completion comes later still, and
  /// what comes is handed over in any order.
  static void reorder(uint64_t seed) {
    UcxShim& self = the();
    self.random_.seed(seed);
    if (self.ucp_ != nullptr) return;
    self.wrap();
    ucx::Library& ucp = *self.ucp_;
    ucp.am_send_nbx = send;
    ucp.put_nbx = put;
    ucp.ep_flush_nbx = flush;
    ucp.worker_progress = progress;
    ucp.worker_arm = arm;
    ucp.request_free = free_request;
    ucp.worker_set_am_recv_handler = set_handler;
    ucp.am_recv_data_nbx = receive_data;
  }

  /// Has the n-th call from now on of one function fail. False: there is no such function.
  static bool fail(const std::string& function, int call) {
    UcxShim& self = the();
    if (self.ucp_ == nullptr) self.wrap();
    self.calls_left_ = call;
    ucx::Library& ucp = *self.ucp_;
#define IBCOLL_FAILING(name)                                                       \
  if (function == #name) {                                                         \
    ucp.name = [](auto... arguments) -> decltype(the().real_.name(arguments...)) { \
      if (--the().calls_left_ == 0) return failed(the().real_.name);               \
      return the().real_.name(arguments...);                                       \
    };                                                                             \
    return true;                                                                   \
  }
    IBCOLL_FAILING(init_version)
    IBCOLL_FAILING(config_read)
    IBCOLL_FAILING(worker_create)
    IBCOLL_FAILING(worker_get_address)
    IBCOLL_FAILING(worker_get_efd)
    IBCOLL_FAILING(worker_set_am_recv_handler)
    IBCOLL_FAILING(worker_arm)
    IBCOLL_FAILING(ep_create)
    IBCOLL_FAILING(ep_flush_nbx)
    IBCOLL_FAILING(am_send_nbx)
    IBCOLL_FAILING(am_recv_data_nbx)
    IBCOLL_FAILING(put_nbx)
    IBCOLL_FAILING(mem_map)
    IBCOLL_FAILING(rkey_pack)
    IBCOLL_FAILING(ep_rkey_unpack)
#undef IBCOLL_FAILING
    return false;
  }

 private:
  /// Something that UCP was asked for and has not been told of, or that has ended there and the
  /// transport has not been told of.
  struct Work {
    enum Kind { kSend, kPut, kFlush, kReceive } kind;
    ucp_ep_h endpoint = nullptr;
    unsigned id = 0;
    const void* header = nullptr;
    size_t header_bytes = 0;
    const void* buffer = nullptr;
    size_t count = 0;
    uint64_t address = 0;
    ucp_rkey_h key = nullptr;
    ucp_request_param_t how{};
    uint64_t number = 0;
    bool under_way = false, ended = false;
    ucs_status_t status = UCS_OK;
    size_t received = 0;
  };
  /// A message that has come.
  struct Message {
    std::vector<std::byte> header, data;
    void* later = nullptr;  ///< UCP's, of one whose data is still to be fetched
    size_t bytes = 0;
    ucp_am_recv_param_t how{};
  };

  static UcxShim& the() {
    static UcxShim shim;
    return shim;
  }
  void wrap() {
    ucp_ = ucx::library().value();
    real_ = *ucp_;
  }

  template <class... Arguments>
  static ucs_status_t failed(ucs_status_t (*)(Arguments...)) {
    return UCS_ERR_IO_ERROR;
  }
  template <class... Arguments>
  static ucs_status_ptr_t failed(ucs_status_ptr_t (*)(Arguments...)) {
    return UCS_STATUS_PTR(UCS_ERR_IO_ERROR);
  }

  ucs_status_ptr_t add(Work work) {
    work.number = ++numbers_;
    return works_.emplace_back(std::make_unique<Work>(work)).get();
  }
  static ucs_status_ptr_t send(ucp_ep_h endpoint, unsigned id, const void* header,
                               size_t header_bytes, const void* buffer, size_t count,
                               const ucp_request_param_t* how) {
    return the().add({.kind = Work::kSend,
                      .endpoint = endpoint,
                      .id = id,
                      .header = header,
                      .header_bytes = header_bytes,
                      .buffer = buffer,
                      .count = count,
                      .how = *how});
  }
  static ucs_status_ptr_t put(ucp_ep_h endpoint, const void* buffer, size_t count, uint64_t address,
                              ucp_rkey_h key, const ucp_request_param_t* how) {
    return the().add({.kind = Work::kPut,
                      .endpoint = endpoint,
                      .buffer = buffer,
                      .count = count,
                      .address = address,
                      .key = key,
                      .how = *how});
  }
  static ucs_status_ptr_t flush(ucp_ep_h endpoint, const ucp_request_param_t* how) {
    return the().add({.kind = Work::kFlush, .endpoint = endpoint, .how = *how});
  }

  /// A flush is for the puts that were asked for before.
  void begin(Work& work) {
    if (work.kind == Work::kFlush) {
      for (size_t i = 0; i < works_.size(); ++i) {
        Work& other = *works_[i];
        if (other.kind == Work::kPut && other.endpoint == work.endpoint &&
            other.number < work.number && !other.under_way)
          begin(other);
      }
    }
    work.under_way = true;
    ucp_request_param_t how = work.how;
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.cb.send = [](void* request, ucs_status_t status, void* ended) {
      the().end(*static_cast<Work*>(ended), status);
      the().real_.request_free(request);
    };
    how.user_data = &work;
    ucs_status_ptr_t request = nullptr;
    switch (work.kind) {
      case Work::kSend:
        request = real_.am_send_nbx(work.endpoint, work.id, work.header, work.header_bytes,
                                    work.buffer, work.count, &how);
        break;
      case Work::kPut:
        request =
            real_.put_nbx(work.endpoint, work.buffer, work.count, work.address, work.key, &how);
        break;
      case Work::kFlush:
        request = real_.ep_flush_nbx(work.endpoint, &how);
        break;
      case Work::kReceive:
        return;
    }
    if (!UCS_PTR_IS_PTR(request)) end(work, UCS_PTR_STATUS(request));
  }
  static void end(Work& work, ucs_status_t status) {
    work.ended = true;
    work.status = status;
  }
  static ucs_status_ptr_t receive_data(ucp_worker_h worker, void* later, void* place, size_t count,
                                       const ucp_request_param_t* how) {
    UcxShim& self = the();
    auto& work = *static_cast<Work*>(
        self.add({.kind = Work::kReceive, .how = *how, .under_way = true, .received = count}));
    ucp_request_param_t own = *how;
    own.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* ended) {
      the().end(*static_cast<Work*>(ended), status);
      the().real_.request_free(request);
    };
    own.user_data = &work;
    const ucs_status_ptr_t request = self.real_.am_recv_data_nbx(worker, later, place, count, &own);
    if (!UCS_PTR_IS_PTR(request)) end(work, UCS_PTR_STATUS(request));
    return &work;
  }
  static void free_request(void* request) {
    auto& works = the().works_;
    const auto found = std::find_if(works.begin(), works.end(),
                                    [&](const auto& work) { return work.get() == request; });
    if (found == works.end())
      the().real_.request_free(request);
    else
      works.erase(found);
  }

  static ucs_status_t set_handler(ucp_worker_h worker, const ucp_am_handler_param_t* handler) {
    the().handler_ = *handler;
    ucp_am_handler_param_t own = *handler;
    own.cb = take;
    return the().real_.worker_set_am_recv_handler(worker, &own);
  }
  static ucs_status_t take(void*, const void* header, size_t header_bytes, void* data, size_t bytes,
                           const ucp_am_recv_param_t* how) {
    const auto* const head = static_cast<const std::byte*>(header);
    const auto* const body = static_cast<const std::byte*>(data);
    Message& message = *the().messages_.emplace_back(std::make_unique<Message>());
    message.header.assign(head, head + header_bytes);
    message.how = *how;
    message.bytes = bytes;
    if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
      message.later = data;
      return UCS_INPROGRESS;
    }
    message.data.assign(body, body + bytes);
    return UCS_OK;
  }

  bool often() { return random_() % 3 != 0; }
  static unsigned progress(ucp_worker_h worker) {
    UcxShim& self = the();
    const unsigned moved = self.real_.worker_progress(worker);
    for (int round = 0; round < 3; ++round) {
      if (!self.messages_.empty() && self.often()) self.hand_over_any();
      if (!self.works_.empty() && self.often()) self.move_any();
    }
    return self.random_() % 4 == 0 ? 0 : moved;
  }
  void hand_over_any() {
    const size_t which = random_() % messages_.size();
    const std::unique_ptr<Message> message = std::move(messages_[which]);
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(which));
    handler_.cb(handler_.arg, message->header.data(), message->header.size(),
                message->later != nullptr ? message->later : message->data.data(), message->bytes,
                &message->how);
  }
  void move_any() {
    Work& work = *works_[random_() % works_.size()];
    if (!work.under_way) {
      begin(work);
    } else if (work.ended) {
      const Work copy = work;
      work.ended = false;  // it is told once; the transport frees it
      if (copy.kind == Work::kReceive)
        copy.how.cb.recv_am(&work, copy.status, copy.received, copy.how.user_data);
      else
        copy.how.cb.send(&work, copy.status, copy.how.user_data);
    }
  }
  static ucs_status_t arm(ucp_worker_h worker) {
    UcxShim& self = the();
    return self.works_.empty() && self.messages_.empty() ? self.real_.worker_arm(worker)
                                                         : UCS_ERR_BUSY;
  }

  ucx::Library* ucp_ = nullptr;
  ucx::Library real_;
  int calls_left_ = 0;
  std::mt19937_64 random_;
  uint64_t numbers_ = 0;
  std::vector<std::unique_ptr<Work>> works_;
  std::vector<std::unique_ptr<Message>> messages_;
  ucp_am_handler_param_t handler_{};
};

}  // namespace ibcoll::testing
