#pragma once
/// @file
/// Of the C++ interface: groups and their calls. Included by ibcoll.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ibcoll/basics.hpp"
#include "ibcoll/ibcoll.h"
#include "ibcoll/in_place.hpp"

namespace ibcoll {

class graph;
class subgroup;

/// A set of ranks that makes collective calls. A handle: copies mean the same group.
///
/// Every call has a nonblocking form (i...), which starts it, and a persistent one (..._init),
/// which prepares it for request::start(). Their buffers must stay as they are until the request is
/// done, those of a nonblocking call with the arrays of its layouts; a persistent one has copied
/// them.
/// @ingroup cpp
class group : public detail::in_place_calls {
 public:
  /// Of the C interface's.
  explicit group(ibcoll_group* handle) : in_place_calls(handle) {}

  /// A graph of who sends to whom, which all ranks of the group make together: this rank's sources
  /// and destinations, as ranks of the group, in its own order. See ibcoll_graph_create.
  graph make_graph(std::span<const int> sources, std::span<const int> destinations) const;

  /// Ends the group on all its ranks; see ibcoll_cancel.
  void cancel() const { detail::check(ibcoll_group_cancel(handle_)); }
  /// Throws what ended the group, if anything has, as far as this rank knows.
  void check() const { detail::check(ibcoll_group_status(handle_)); }
  /// The ranks of the group that have died, as far as this rank knows; see ibcoll_group_failed().
  std::vector<int> failed() const {
    int count = 0;
    detail::check(ibcoll_group_failed(handle_, nullptr, &count));
    std::vector<int> ranks(static_cast<size_t>(count));
    // More may have died by now.
    detail::check(ibcoll_group_failed(handle_, ranks.data(), &count));
    return ranks;
  }
  /// A new group of the members that are alive, which all of them make together; see
  /// ibcoll_group_shrink(). `id`: as for a subgroup.
  subgroup shrink(uint64_t id = 0) const;

  /// The algorithms that may be faster than the engine's own choice, by name, for programs that
  /// measure; see ibcoll_algorithm_to_try().
  std::vector<std::string_view> algorithms_to_try(ibcoll_collective collective,
                                                  size_t block_bytes) const {
    std::vector<std::string_view> names;
    while (const char* name = ibcoll_algorithm_to_try(handle_, collective, block_bytes,
                                                      static_cast<int>(names.size())))
      names.emplace_back(name);
    return names;
  }

  /// @{
  /// Block i of send goes to rank i, block i of recv comes from it. Both hold size() blocks of the
  /// same number of elements; the number of blocks must divide them.
  template <class T>
  void alltoall(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_alltoall(handle_, at(send), at(recv), block_bytes(recv),
                                  c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoall(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_alltoall(at(send), at(recv), block_bytes(recv),
                                     c_options(o, send, recv).get()));
  }
  template <class T>
  request alltoall_init(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(
        ibcoll_call_alltoall(at(send), at(recv), block_bytes(recv), c_options(o, send, recv).get()),
        IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place for each block; counts and displacements are in bytes.
  template <class T>
  void alltoallv(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                 const layout& recv_layout, const options& o = {}) const {
    check_layout(send_layout);
    check_layout(recv_layout);
    detail::check(ibcoll_alltoallv(handle_, at(send), send_layout.counts.data(),
                                   send_layout.displacements.data(), at(recv),
                                   recv_layout.counts.data(), recv_layout.displacements.data(),
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoallv(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                     const layout& recv_layout, const options& o = {}) const {
    check_layout(send_layout);
    check_layout(recv_layout);
    return make(ibcoll_call_alltoallv(at(send), send_layout.counts.data(),
                                      send_layout.displacements.data(), at(recv),
                                      recv_layout.counts.data(), recv_layout.displacements.data(),
                                      c_options(o, send, recv).get()));
  }
  template <class T>
  request alltoallv_init(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                         const layout& recv_layout, const options& o = {}) const {
    check_layout(send_layout);
    check_layout(recv_layout);
    return make(
        ibcoll_call_alltoallv(at(send), send_layout.counts.data(), send_layout.displacements.data(),
                              at(recv), recv_layout.counts.data(), recv_layout.displacements.data(),
                              c_options(o, send, recv).get()),
        IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a layout for each block; places are in bytes from the beginning of the spans, in
  /// which all blocks must lie.
  template <class T>
  void alltoallw(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                 std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                 const options& o = {}) const {
    detail::check(ibcoll_alltoallw(handle_, at(send), checked(send_blocks), at(recv),
                                   checked(recv_blocks), c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoallw(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                     std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                     const options& o = {}) const {
    return make(ibcoll_call_alltoallw(at(send), checked(send_blocks), at(recv),
                                      checked(recv_blocks), c_options(o, send, recv).get()));
  }
  template <class T>
  request alltoallw_init(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                         std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                         const options& o = {}) const {
    return make(ibcoll_call_alltoallw(at(send), checked(send_blocks), at(recv),
                                      checked(recv_blocks), c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// Completes counts that only one side knows (IBCOLL_UNKNOWN).
  void exchange_counts(std::span<int64_t> send_counts, std::span<int64_t> recv_counts) const {
    check_layout({send_counts, recv_counts});
    detail::check(ibcoll_exchange_counts(handle_, send_counts.data(), recv_counts.data()));
  }

  /// @{
  /// Everybody receives everybody's block: recv holds size() times what send holds.
  template <class T>
  void allgather(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_allgather(handle_, at(send), at(recv), send.size_bytes(),
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request iallgather(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_allgather(at(send), at(recv), send.size_bytes(),
                                      c_options(o, send, recv).get()));
  }
  template <class T>
  request allgather_init(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_allgather(at(send), at(recv), send.size_bytes(),
                                      c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place for each block: send is this rank's, l says where all go
  /// in recv.
  template <class T>
  void allgatherv(std::span<const T> send, std::span<T> recv, const layout& l,
                  const options& o = {}) const {
    check_layout(l);
    detail::check(ibcoll_allgatherv(handle_, at(send), bytes(send), at(recv), l.counts.data(),
                                    l.displacements.data(), c_options(o, send, recv).get()));
  }
  template <class T>
  request iallgatherv(std::span<const T> send, std::span<T> recv, const layout& l,
                      const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_allgatherv(at(send), bytes(send), at(recv), l.counts.data(),
                                       l.displacements.data(), c_options(o, send, recv).get()));
  }
  template <class T>
  request allgatherv_init(std::span<const T> send, std::span<T> recv, const layout& l,
                          const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_allgatherv(at(send), bytes(send), at(recv), l.counts.data(),
                                       l.displacements.data(), c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The root receives everybody's block: recv, there, holds size() times what send holds;
  /// elsewhere it may be empty.
  template <class T>
  void gather(std::span<const T> send, std::span<T> recv, int root, const options& o = {}) const {
    detail::check(ibcoll_gather(handle_, at(send), at(recv), send.size_bytes(), root,
                                c_options(o, send, recv).get()));
  }
  template <class T>
  request igather(std::span<const T> send, std::span<T> recv, int root,
                  const options& o = {}) const {
    return make(ibcoll_call_gather(at(send), at(recv), send.size_bytes(), root,
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request gather_init(std::span<const T> send, std::span<T> recv, int root,
                      const options& o = {}) const {
    return make(ibcoll_call_gather(at(send), at(recv), send.size_bytes(), root,
                                   c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place for each block: l says, at the root, where all go in recv;
  /// elsewhere both may be empty.
  template <class T>
  void gatherv(std::span<const T> send, std::span<T> recv, const layout& l, int root,
               const options& o = {}) const {
    if (rank() == root) check_layout(l);
    detail::check(ibcoll_gatherv(handle_, at(send), bytes(send), at(recv), l.counts.data(),
                                 l.displacements.data(), root, c_options(o, send, recv).get()));
  }
  template <class T>
  request igatherv(std::span<const T> send, std::span<T> recv, const layout& l, int root,
                   const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(ibcoll_call_gatherv(at(send), bytes(send), at(recv), l.counts.data(),
                                    l.displacements.data(), root, c_options(o, send, recv).get()));
  }
  template <class T>
  request gatherv_init(std::span<const T> send, std::span<T> recv, const layout& l, int root,
                       const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(ibcoll_call_gatherv(at(send), bytes(send), at(recv), l.counts.data(),
                                    l.displacements.data(), root, c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// Everybody receives a block of the root's: send, there, holds size() times what recv holds;
  /// elsewhere it may be empty.
  template <class T>
  void scatter(std::span<const T> send, std::span<T> recv, int root, const options& o = {}) const {
    detail::check(ibcoll_scatter(handle_, at(send), at(recv), recv.size_bytes(), root,
                                 c_options(o, send, recv).get()));
  }
  template <class T>
  request iscatter(std::span<const T> send, std::span<T> recv, int root,
                   const options& o = {}) const {
    return make(ibcoll_call_scatter(at(send), at(recv), recv.size_bytes(), root,
                                    c_options(o, send, recv).get()));
  }
  template <class T>
  request scatter_init(std::span<const T> send, std::span<T> recv, int root,
                       const options& o = {}) const {
    return make(ibcoll_call_scatter(at(send), at(recv), recv.size_bytes(), root,
                                    c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place for each block: l says, at the root, where they lie in
  /// send; elsewhere both may be empty.
  template <class T>
  void scatterv(std::span<const T> send, const layout& l, std::span<T> recv, int root,
                const options& o = {}) const {
    if (rank() == root) check_layout(l);
    detail::check(ibcoll_scatterv(handle_, at(send), l.counts.data(), l.displacements.data(),
                                  at(recv), bytes(recv), root, c_options(o, send, recv).get()));
  }
  template <class T>
  request iscatterv(std::span<const T> send, const layout& l, std::span<T> recv, int root,
                    const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(ibcoll_call_scatterv(at(send), l.counts.data(), l.displacements.data(), at(recv),
                                     bytes(recv), root, c_options(o, send, recv).get()));
  }
  template <class T>
  request scatterv_init(std::span<const T> send, const layout& l, std::span<T> recv, int root,
                        const options& o = {}) const {
    if (rank() == root) check_layout(l);
    return make(ibcoll_call_scatterv(at(send), l.counts.data(), l.displacements.data(), at(recv),
                                     bytes(recv), root, c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// Completes counts of a gatherv or scatterv that only one side knows (IBCOLL_UNKNOWN): this
  /// rank's own and, at the root, those of all.
  void exchange_root_counts(int64_t& own_count, std::span<int64_t> counts, int root) const {
    if (rank() == root) check_layout({counts, counts});
    detail::check(ibcoll_exchange_root_counts(handle_, &own_count, counts.data(), root));
  }

  /// @{
  /// What the root has in data, all have there afterwards.
  template <class T>
  void bcast(std::span<T> data, int root, const options& o = {}) const {
    detail::check(ibcoll_bcast(handle_, at(data), data.size_bytes(), root,
                               c_options(o, std::span<const T>(data), data).get()));
  }
  template <class T>
  request ibcast(std::span<T> data, int root, const options& o = {}) const {
    return make(ibcoll_call_bcast(at(data), data.size_bytes(), root,
                                  c_options(o, std::span<const T>(data), data).get()));
  }
  template <class T>
  request bcast_init(std::span<T> data, int root, const options& o = {}) const {
    return make(ibcoll_call_bcast(at(data), data.size_bytes(), root,
                                  c_options(o, std::span<const T>(data), data).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The root's recv is the combination, element by element, of what all ranks send; elsewhere it
  /// may be empty.
  template <class T>
  void reduce(std::span<const T> send, std::span<T> recv, ibcoll_operator op, int root,
              const options& o = {}) const {
    detail::check(ibcoll_reduce(handle_, at(send), at(recv), send.size(), type_of<T>(), op, root,
                                c_options(o, send, recv).get()));
  }
  template <class T>
  request ireduce(std::span<const T> send, std::span<T> recv, ibcoll_operator op, int root,
                  const options& o = {}) const {
    return make(ibcoll_call_reduce(at(send), at(recv), send.size(), type_of<T>(), op, root,
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request reduce_init(std::span<const T> send, std::span<T> recv, ibcoll_operator op, int root,
                      const options& o = {}) const {
    return make(ibcoll_call_reduce(at(send), at(recv), send.size(), type_of<T>(), op, root,
                                   c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// Nobody leaves before everybody has entered.
  void barrier() const { detail::check(ibcoll_barrier(handle_, nullptr)); }
  request ibarrier() const { return make(ibcoll_call_barrier(nullptr)); }
  request barrier_init() const { return make(ibcoll_call_barrier(nullptr), IBCOLL_PERSISTENT); }
  /// @}
};

/// A group made of some ranks; freed with the object. `id`: tells groups of the same ranks apart,
/// in whatever order their members make them; 0: none.
/// @ingroup cpp
class subgroup : public group {
 public:
  /// Of these ranks of the job, in this order.
  subgroup(ibcoll_context* context, std::span<const int> ranks, uint64_t id = 0)
      : group(create(context, ranks, id)) {}
  /// Of the ranks whose bits are set: rank r is bit r % 64 of word r / 64.
  static subgroup from_bitmap(ibcoll_context* context, std::span<const uint64_t> words,
                              uint64_t id = 0) {
    const ibcoll_group_options options{sizeof options, id};
    ibcoll_group* made = nullptr;
    detail::check(
        ibcoll_group_create_from_bitmap(context, words.data(), words.size(), &options, &made));
    return subgroup(made);
  }
  subgroup(const subgroup&) = delete;
  subgroup& operator=(const subgroup&) = delete;
  ~subgroup() { ibcoll_group_free(handle()); }

 private:
  friend class group;
  explicit subgroup(ibcoll_group* made) : group(made) {}
  static ibcoll_group* create(ibcoll_context* context, std::span<const int> ranks, uint64_t id) {
    const ibcoll_group_options options{sizeof options, id};
    ibcoll_group* made = nullptr;
    detail::check(ibcoll_group_create_with(context, ranks.data(), static_cast<int>(ranks.size()),
                                           &options, &made));
    return made;
  }
};

inline subgroup group::shrink(uint64_t id) const {
  const ibcoll_group_options options{sizeof options, id};
  ibcoll_group* made = nullptr;
  detail::check(ibcoll_group_shrink(handle_, &options, &made));
  return subgroup(made);
}

}  // namespace ibcoll
