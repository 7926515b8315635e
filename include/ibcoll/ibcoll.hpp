#pragma once
/// C++ interface of ibcoll: owners and spans over the C interface (ibcoll.h), header only. Errors
/// are thrown as ibcoll::error.
///
/// Sizes of spans are checked: a call that would reach past its buffers is refused.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ibcoll/ibcoll.h"

namespace ibcoll {

/// What a call that did not succeed throws.
class error : public std::runtime_error {
 public:
  explicit error(ibcoll_status status) : std::runtime_error(ibcoll_last_error()), status_(status) {}
  ibcoll_status status() const { return status_; }

 private:
  ibcoll_status status_;
};

namespace detail {
inline void check(ibcoll_status status) {
  if (status != IBCOLL_OK) throw error(status);
}
}  // namespace detail

/// How a call is to be made; all ranks of the group must pass the same. Defaults: the engine
/// chooses.
struct options {
  std::string algorithm = {};
  std::string pacing = {};
  int pieces = 0;
  bool ordered = false;  ///< reduce: in the order of ranks, the same bits whatever the layout
};

/// Memory that all ranks of the server and the network reach directly; freed with the object, which
/// must not outlive the context.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>, "other ranks read and write these bytes");

 public:
  buffer() = default;
  buffer(ibcoll_context* context, size_t elements) : context_(context), size_(elements) {
    void* memory = nullptr;
    detail::check(ibcoll_alloc(context, elements * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  buffer(buffer&& other) noexcept
      : context_(other.context_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (data_ != nullptr) ibcoll_free(context_, data_);
  }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  operator std::span<T>() const { return {data_, size_}; }
  operator std::span<const T>() const { return {data_, size_}; }

 private:
  ibcoll_context* context_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// A nonblocking or persistent call. The object waits for it before it goes.
class request {
 public:
  request() = default;
  explicit request(ibcoll_request* handle, bool persistent)
      : handle_(handle), persistent_(persistent) {}
  request(request&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), persistent_(other.persistent_) {}
  request& operator=(request&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(persistent_, other.persistent_);
    return *this;
  }
  ~request() {
    if (handle_ == nullptr) return;
    ibcoll_wait(&handle_);
    if (persistent_) ibcoll_request_free(handle_);
  }

  /// Starts a persistent call.
  void start() { detail::check(ibcoll_start(handle_)); }
  /// True once the call has finished on this rank.
  bool test() {
    int done = 0;
    detail::check(ibcoll_test(&handle_, &done));
    return done != 0;
  }
  void wait() { detail::check(ibcoll_wait(&handle_)); }

 private:
  ibcoll_request* handle_ = nullptr;
  bool persistent_ = false;
};

/// Lengths and places of one side of an alltoallv or its like, in bytes, one entry a rank.
struct layout {
  std::span<const int64_t> counts;
  std::span<const int64_t> displacements;
};

/// The ibcoll_type of a C++ type that reductions take.
template <class T>
constexpr ibcoll_type type_of() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
                "reductions take integers of up to 64 bits, float and double");
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? IBCOLL_FLOAT : IBCOLL_DOUBLE;
  constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
  return static_cast<ibcoll_type>(size + (std::is_unsigned_v<T> ? 1 : 0));
}

/// A set of ranks that makes collective calls. A handle: copies mean the same group.
class group {
 public:
  explicit group(ibcoll_group* handle) : handle_(handle) {}

  int rank() const { return ibcoll_group_rank(handle_); }
  int size() const { return ibcoll_group_size(handle_); }
  ibcoll_group* handle() const { return handle_; }

  // Every call has a nonblocking form (i...), which starts it, and a persistent one (..._init),
  // which prepares it for request::start(). Their buffers and the arrays of their layouts must stay
  // as they are until the request is done.

  /// send and recv hold size() blocks of the same number of elements; the number of blocks must
  /// divide them.
  template <class T>
  void alltoall(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_alltoall(handle_, send.data(), recv.data(), block_bytes(recv),
                                  c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoall(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(false, ibcoll_ialltoall, handle_, send.data(), recv.data(), block_bytes(recv),
                c_options(o, send, recv).get());
  }
  template <class T>
  request alltoall_init(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(true, ibcoll_alltoall_init, handle_, send.data(), recv.data(), block_bytes(recv),
                c_options(o, send, recv).get());
  }

  /// The data to send lies in recv.
  template <class T>
  void alltoall_in_place(std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_alltoall(handle_, IBCOLL_IN_PLACE, recv.data(), block_bytes(recv),
                                  c_options(o, std::span<const T>(), recv).get()));
  }

  template <class T>
  void alltoallv(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                 const layout& recv_layout, const options& o = {}) const {
    check_layout(send_layout);
    check_layout(recv_layout);
    detail::check(ibcoll_alltoallv(handle_, send.data(), send_layout.counts.data(),
                                   send_layout.displacements.data(), recv.data(),
                                   recv_layout.counts.data(), recv_layout.displacements.data(),
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoallv(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                     const layout& recv_layout, const options& o = {}) const {
    check_layout(send_layout);
    check_layout(recv_layout);
    return make(false, ibcoll_ialltoallv, handle_, send.data(), send_layout.counts.data(),
                send_layout.displacements.data(), recv.data(), recv_layout.counts.data(),
                recv_layout.displacements.data(), c_options(o, send, recv).get());
  }
  template <class T>
  request alltoallv_init(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                         const layout& recv_layout, const options& o = {}) const {
    check_layout(send_layout);
    check_layout(recv_layout);
    return make(true, ibcoll_alltoallv_init, handle_, send.data(), send_layout.counts.data(),
                send_layout.displacements.data(), recv.data(), recv_layout.counts.data(),
                recv_layout.displacements.data(), c_options(o, send, recv).get());
  }

  /// Completes counts that only one side knows (IBCOLL_UNKNOWN).
  void exchange_counts(std::span<int64_t> send_counts, std::span<int64_t> recv_counts) const {
    check_layout({send_counts, recv_counts});
    detail::check(ibcoll_exchange_counts(handle_, send_counts.data(), recv_counts.data()));
  }

  /// recv holds size() times what send holds.
  template <class T>
  void allgather(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_allgather(handle_, send.data(), recv.data(), send.size_bytes(),
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request iallgather(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(false, ibcoll_iallgather, handle_, send.data(), recv.data(), send.size_bytes(),
                c_options(o, send, recv).get());
  }
  template <class T>
  request allgather_init(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(true, ibcoll_allgather_init, handle_, send.data(), recv.data(), send.size_bytes(),
                c_options(o, send, recv).get());
  }

  /// `send` is this rank's block; `l` says where all blocks go in recv.
  template <class T>
  void allgatherv(std::span<const T> send, std::span<T> recv, const layout& l,
                  const options& o = {}) const {
    check_layout(l);
    detail::check(ibcoll_allgatherv(handle_, send.data(), bytes(send), recv.data(), l.counts.data(),
                                    l.displacements.data(), c_options(o, send, recv).get()));
  }
  template <class T>
  request iallgatherv(std::span<const T> send, std::span<T> recv, const layout& l,
                      const options& o = {}) const {
    check_layout(l);
    return make(false, ibcoll_iallgatherv, handle_, send.data(), bytes(send), recv.data(),
                l.counts.data(), l.displacements.data(), c_options(o, send, recv).get());
  }
  template <class T>
  request allgatherv_init(std::span<const T> send, std::span<T> recv, const layout& l,
                          const options& o = {}) const {
    check_layout(l);
    return make(true, ibcoll_allgatherv_init, handle_, send.data(), bytes(send), recv.data(),
                l.counts.data(), l.displacements.data(), c_options(o, send, recv).get());
  }

  /// recv, at the root, holds size() times what send holds; elsewhere it may be empty.
  template <class T>
  void gather(std::span<const T> send, std::span<T> recv, int root, const options& o = {}) const {
    detail::check(ibcoll_gather(handle_, send.data(), recv.data(), send.size_bytes(), root,
                                c_options(o, send, recv).get()));
  }
  template <class T>
  request igather(std::span<const T> send, std::span<T> recv, int root,
                  const options& o = {}) const {
    return make(false, ibcoll_igather, handle_, send.data(), recv.data(), send.size_bytes(), root,
                c_options(o, send, recv).get());
  }
  template <class T>
  request gather_init(std::span<const T> send, std::span<T> recv, int root,
                      const options& o = {}) const {
    return make(true, ibcoll_gather_init, handle_, send.data(), recv.data(), send.size_bytes(),
                root, c_options(o, send, recv).get());
  }

  /// `l` says, at the root, where all blocks go in recv; elsewhere both may be empty.
  template <class T>
  void gatherv(std::span<const T> send, std::span<T> recv, const layout& l, int root,
               const options& o = {}) const {
    if (rank() == root) check_layout(l);
    detail::check(ibcoll_gatherv(handle_, send.data(), bytes(send), recv.data(), l.counts.data(),
                                 l.displacements.data(), root, c_options(o, send, recv).get()));
  }
  template <class T>
  request igatherv(std::span<const T> send, std::span<T> recv, const layout& l, int root,
                   const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(false, ibcoll_igatherv, handle_, send.data(), bytes(send), recv.data(),
                l.counts.data(), l.displacements.data(), root, c_options(o, send, recv).get());
  }
  template <class T>
  request gatherv_init(std::span<const T> send, std::span<T> recv, const layout& l, int root,
                       const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(true, ibcoll_gatherv_init, handle_, send.data(), bytes(send), recv.data(),
                l.counts.data(), l.displacements.data(), root, c_options(o, send, recv).get());
  }

  /// send, at the root, holds size() times what recv holds; elsewhere it may be empty.
  template <class T>
  void scatter(std::span<const T> send, std::span<T> recv, int root, const options& o = {}) const {
    detail::check(ibcoll_scatter(handle_, send.data(), recv.data(), recv.size_bytes(), root,
                                 c_options(o, send, recv).get()));
  }
  template <class T>
  request iscatter(std::span<const T> send, std::span<T> recv, int root,
                   const options& o = {}) const {
    return make(false, ibcoll_iscatter, handle_, send.data(), recv.data(), recv.size_bytes(), root,
                c_options(o, send, recv).get());
  }
  template <class T>
  request scatter_init(std::span<const T> send, std::span<T> recv, int root,
                       const options& o = {}) const {
    return make(true, ibcoll_scatter_init, handle_, send.data(), recv.data(), recv.size_bytes(),
                root, c_options(o, send, recv).get());
  }

  /// `l` says, at the root, where the blocks lie in send; elsewhere both may be empty.
  template <class T>
  void scatterv(std::span<const T> send, const layout& l, std::span<T> recv, int root,
                const options& o = {}) const {
    if (rank() == root) check_layout(l);
    detail::check(ibcoll_scatterv(handle_, send.data(), l.counts.data(), l.displacements.data(),
                                  recv.data(), bytes(recv), root, c_options(o, send, recv).get()));
  }
  template <class T>
  request iscatterv(std::span<const T> send, const layout& l, std::span<T> recv, int root,
                    const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(false, ibcoll_iscatterv, handle_, send.data(), l.counts.data(),
                l.displacements.data(), recv.data(), bytes(recv), root,
                c_options(o, send, recv).get());
  }
  template <class T>
  request scatterv_init(std::span<const T> send, const layout& l, std::span<T> recv, int root,
                        const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(true, ibcoll_scatterv_init, handle_, send.data(), l.counts.data(),
                l.displacements.data(), recv.data(), bytes(recv), root,
                c_options(o, send, recv).get());
  }

  /// Completes counts of a gatherv or scatterv that only one side knows (IBCOLL_UNKNOWN): this
  /// rank's own and, at the root, those of all.
  void exchange_root_counts(int64_t& own_count, std::span<int64_t> counts, int root) const {
    if (rank() == root) check_layout({counts, counts});
    detail::check(ibcoll_exchange_root_counts(handle_, &own_count, counts.data(), root));
  }

  template <class T>
  void bcast(std::span<T> data, int root, const options& o = {}) const {
    detail::check(ibcoll_bcast(handle_, data.data(), data.size_bytes(), root,
                               c_options(o, std::span<const T>(data), data).get()));
  }
  template <class T>
  request ibcast(std::span<T> data, int root, const options& o = {}) const {
    return make(false, ibcoll_ibcast, handle_, data.data(), data.size_bytes(), root,
                c_options(o, std::span<const T>(data), data).get());
  }
  template <class T>
  request bcast_init(std::span<T> data, int root, const options& o = {}) const {
    return make(true, ibcoll_bcast_init, handle_, data.data(), data.size_bytes(), root,
                c_options(o, std::span<const T>(data), data).get());
  }

  /// recv, at the root, is as long as send; elsewhere it may be empty.
  template <class T>
  void reduce(std::span<const T> send, std::span<T> recv, ibcoll_operator op, int root,
              const options& o = {}) const {
    detail::check(ibcoll_reduce(handle_, send.data(), recv.data(), send.size(), type_of<T>(), op,
                                root, c_options(o, send, recv).get()));
  }
  template <class T>
  request ireduce(std::span<const T> send, std::span<T> recv, ibcoll_operator op, int root,
                  const options& o = {}) const {
    return make(false, ibcoll_ireduce, handle_, send.data(), recv.data(), send.size(), type_of<T>(),
                op, root, c_options(o, send, recv).get());
  }
  template <class T>
  request reduce_init(std::span<const T> send, std::span<T> recv, ibcoll_operator op, int root,
                      const options& o = {}) const {
    return make(true, ibcoll_reduce_init, handle_, send.data(), recv.data(), send.size(),
                type_of<T>(), op, root, c_options(o, send, recv).get());
  }

  void barrier() const { detail::check(ibcoll_barrier(handle_, nullptr)); }
  request ibarrier() const { return make(false, ibcoll_ibarrier, handle_, nullptr); }
  request barrier_init() const { return make(true, ibcoll_barrier_init, handle_, nullptr); }

 private:
  template <class T>
  static int64_t bytes(std::span<T> data) {
    return static_cast<int64_t>(data.size_bytes());
  }
  template <class T>
  size_t block_bytes(std::span<T> recv) const {
    if (recv.size() % static_cast<size_t>(size()) != 0) {
      throw std::invalid_argument("ibcoll: a buffer of " + std::to_string(recv.size()) +
                                  " elements does not divide into " + std::to_string(size()) +
                                  " blocks");
    }
    return recv.size_bytes() / static_cast<size_t>(size());
  }
  void check_layout(const layout& l) const {
    if (l.counts.size() != static_cast<size_t>(size()) ||
        l.displacements.size() != static_cast<size_t>(size())) {
      throw std::invalid_argument("ibcoll: one count and one displacement a rank are needed, " +
                                  std::to_string(size()) + " in all");
    }
  }
  /// The options of the C interface, for one expression.
  class c_options {
   public:
    template <class T>
    c_options(const options& o, std::span<const T> send, std::span<T> recv) : options_{} {
      options_.algorithm = o.algorithm.empty() ? nullptr : o.algorithm.c_str();
      options_.pacing = o.pacing.empty() ? nullptr : o.pacing.c_str();
      options_.pieces = o.pieces;
      options_.send_bytes = send.size_bytes();
      options_.recv_bytes = recv.size_bytes();
      options_.ordered = o.ordered ? 1 : 0;
    }
    const ibcoll_options* get() const { return &options_; }

   private:
    ibcoll_options options_;
  };

  /// Makes the request that a function of the C interface makes of these arguments.
  template <class Function, class... Arguments>
  static request make(bool persistent, Function function, Arguments... arguments) {
    ibcoll_request* made = nullptr;
    detail::check(function(arguments..., &made));
    return request(made, persistent);
  }

  ibcoll_group* handle_;
};

/// A group made of some ranks; freed with the object.
class subgroup : public group {
 public:
  subgroup(ibcoll_context* context, std::span<const int> ranks) : group(create(context, ranks)) {}
  subgroup(const subgroup&) = delete;
  subgroup& operator=(const subgroup&) = delete;
  ~subgroup() { ibcoll_group_free(handle()); }

 private:
  static ibcoll_group* create(ibcoll_context* context, std::span<const int> ranks) {
    ibcoll_group* made = nullptr;
    detail::check(
        ibcoll_group_create(context, ranks.data(), static_cast<int>(ranks.size()), &made));
    return made;
  }
};

/// One rank's membership in a job, as ibcoll_launch or ibcoll_init gave it. A handle.
class context {
 public:
  explicit context(ibcoll_context* handle) : handle_(handle) {}

  int rank() const { return ibcoll_rank(handle_); }
  int size() const { return ibcoll_size(handle_); }
  int servers() const { return ibcoll_servers(handle_); }
  group world() const { return group(ibcoll_world(handle_)); }
  template <class T>
  buffer<T> allocate(size_t elements) const {
    return buffer<T>(handle_, elements);
  }
  ibcoll_counters counters() const {
    ibcoll_counters result{};
    detail::check(ibcoll_get_counters(handle_, &result));
    return result;
  }
  ibcoll_context* handle() const { return handle_; }

 private:
  ibcoll_context* handle_;
};

/// Starts `ranks` processes on this machine, each of which runs `main`; gives 0 if all returned 0,
/// else the first result that was not. An exception that leaves `main` ends its process with its
/// text and status 1.
inline int launch(int ranks, const std::function<int(context&)>& main,
                  const std::string& server_layout = {}) {
  ibcoll_launch_options o{};
  o.ranks = ranks;
  o.layout = server_layout.empty() ? nullptr : server_layout.c_str();
  o.bind = 1;
  int status = 0;
  detail::check(ibcoll_launch(
      &o,
      [](ibcoll_context* handle, void* argument) {
        try {
          context c(handle);
          return (*static_cast<const std::function<int(context&)>*>(argument))(c);
        } catch (const std::exception& e) {
          ibcoll_abort(handle, e.what());
          return 1;
        }
      },
      const_cast<std::function<int(context&)>*>(&main), &status));
  return status;
}

}  // namespace ibcoll
