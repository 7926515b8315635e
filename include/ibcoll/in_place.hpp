#pragma once
/// @file
/// Of the C++ interface: calls whose data to send lies where they receive, or stays where it is.
/// Included by ibcoll.hpp.

#include <span>

#include "ibcoll/basics.hpp"
#include "ibcoll/group_base.hpp"
#include "ibcoll/ibcoll.h"
#include "ibcoll/reductions.hpp"

namespace ibcoll::detail {

/// The calls in place of a group, in the three forms that group has of all calls.
class in_place_calls : public reduction_calls {
 public:
  /// Those of the C interface's group.
  explicit in_place_calls(ibcoll_group* handle) : reduction_calls(handle) {}

  /// @{
  /// What is sent to a rank lies where what comes from it is to lie.
  template <class T>
  void alltoall_in_place(std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_alltoall(handle_, IBCOLL_IN_PLACE, at(recv), block_bytes(recv),
                                  received_in(recv, o).get()));
  }
  template <class T>
  request ialltoall_in_place(std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_alltoall(IBCOLL_IN_PLACE, at(recv), block_bytes(recv),
                                     received_in(recv, o).get()));
  }
  template <class T>
  request alltoall_in_place_init(std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_alltoall(IBCOLL_IN_PLACE, at(recv), block_bytes(recv),
                                     received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place for each block; what is sent to a rank is as long as what
  /// comes from it.
  template <class T>
  void alltoallv_in_place(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    detail::check(ibcoll_alltoallv(handle_, IBCOLL_IN_PLACE, nullptr, nullptr, at(recv),
                                   l.counts.data(), l.displacements.data(),
                                   received_in(recv, o).get()));
  }
  template <class T>
  request ialltoallv_in_place(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_alltoallv(IBCOLL_IN_PLACE, nullptr, nullptr, at(recv), l.counts.data(),
                                      l.displacements.data(), received_in(recv, o).get()));
  }
  template <class T>
  request alltoallv_in_place_init(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_alltoallv(IBCOLL_IN_PLACE, nullptr, nullptr, at(recv), l.counts.data(),
                                      l.displacements.data(), received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a layout for each block.
  template <class T>
  void alltoallw_in_place(std::span<T> recv, std::span<const ibcoll_block> blocks,
                          const options& o = {}) const {
    detail::check(ibcoll_alltoallw(handle_, IBCOLL_IN_PLACE, nullptr, at(recv), checked(blocks),
                                   received_in(recv, o).get()));
  }
  template <class T>
  request ialltoallw_in_place(std::span<T> recv, std::span<const ibcoll_block> blocks,
                              const options& o = {}) const {
    return make(ibcoll_call_alltoallw(IBCOLL_IN_PLACE, nullptr, at(recv), checked(blocks),
                                      received_in(recv, o).get()));
  }
  template <class T>
  request alltoallw_in_place_init(std::span<T> recv, std::span<const ibcoll_block> blocks,
                                  const options& o = {}) const {
    return make(ibcoll_call_alltoallw(IBCOLL_IN_PLACE, nullptr, at(recv), checked(blocks),
                                      received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// This rank's block is in its place in recv already.
  template <class T>
  void allgather_in_place(std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_allgather(handle_, IBCOLL_IN_PLACE, at(recv), block_bytes(recv),
                                   received_in(recv, o).get()));
  }
  template <class T>
  request iallgather_in_place(std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_allgather(IBCOLL_IN_PLACE, at(recv), block_bytes(recv),
                                      received_in(recv, o).get()));
  }
  template <class T>
  request allgather_in_place_init(std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_allgather(IBCOLL_IN_PLACE, at(recv), block_bytes(recv),
                                      received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place for each block.
  template <class T>
  void allgatherv_in_place(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    detail::check(ibcoll_allgatherv(handle_, IBCOLL_IN_PLACE, 0, at(recv), l.counts.data(),
                                    l.displacements.data(), received_in(recv, o).get()));
  }
  template <class T>
  request iallgatherv_in_place(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_allgatherv(IBCOLL_IN_PLACE, 0, at(recv), l.counts.data(),
                                       l.displacements.data(), received_in(recv, o).get()));
  }
  template <class T>
  request allgatherv_in_place_init(std::span<T> recv, const layout& l,
                                   const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_allgatherv(IBCOLL_IN_PLACE, 0, at(recv), l.counts.data(),
                                       l.displacements.data(), received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// At the root, where others call gather(): its own block is in its place in recv already.
  template <class T>
  void gather_in_place(std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_gather(handle_, IBCOLL_IN_PLACE, at(recv), block_bytes(recv), rank(),
                                received_in(recv, o).get()));
  }
  template <class T>
  request igather_in_place(std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_gather(IBCOLL_IN_PLACE, at(recv), block_bytes(recv), rank(),
                                   received_in(recv, o).get()));
  }
  template <class T>
  request gather_in_place_init(std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_gather(IBCOLL_IN_PLACE, at(recv), block_bytes(recv), rank(),
                                   received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same where others call gatherv().
  template <class T>
  void gatherv_in_place(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    detail::check(ibcoll_gatherv(handle_, IBCOLL_IN_PLACE, 0, at(recv), l.counts.data(),
                                 l.displacements.data(), rank(), received_in(recv, o).get()));
  }
  template <class T>
  request igatherv_in_place(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_gatherv(IBCOLL_IN_PLACE, 0, at(recv), l.counts.data(),
                                    l.displacements.data(), rank(), received_in(recv, o).get()));
  }
  template <class T>
  request gatherv_in_place_init(std::span<T> recv, const layout& l, const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_gatherv(IBCOLL_IN_PLACE, 0, at(recv), l.counts.data(),
                                    l.displacements.data(), rank(), received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// At the root, where others call scatter(): its own block stays where it is in send.
  template <class T>
  void scatter_in_place(std::span<const T> send, const options& o = {}) const {
    detail::check(ibcoll_scatter(handle_, at(send), kept(), block_bytes(send), rank(),
                                 sent_from(send, o).get()));
  }
  template <class T>
  request iscatter_in_place(std::span<const T> send, const options& o = {}) const {
    return make(
        ibcoll_call_scatter(at(send), kept(), block_bytes(send), rank(), sent_from(send, o).get()));
  }
  template <class T>
  request scatter_in_place_init(std::span<const T> send, const options& o = {}) const {
    return make(
        ibcoll_call_scatter(at(send), kept(), block_bytes(send), rank(), sent_from(send, o).get()),
        IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same where others call scatterv().
  template <class T>
  void scatterv_in_place(std::span<const T> send, const layout& l, const options& o = {}) const {
    check_layout(l);
    detail::check(ibcoll_scatterv(handle_, at(send), l.counts.data(), l.displacements.data(),
                                  kept(), 0, rank(), sent_from(send, o).get()));
  }
  template <class T>
  request iscatterv_in_place(std::span<const T> send, const layout& l,
                             const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_scatterv(at(send), l.counts.data(), l.displacements.data(), kept(), 0,
                                     rank(), sent_from(send, o).get()));
  }
  template <class T>
  request scatterv_in_place_init(std::span<const T> send, const layout& l,
                                 const options& o = {}) const {
    check_layout(l);
    return make(ibcoll_call_scatterv(at(send), l.counts.data(), l.displacements.data(), kept(), 0,
                                     rank(), sent_from(send, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// At the root, where others call reduce(): its own elements lie in recv.
  template <class T>
  void reduce_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    detail::check(ibcoll_reduce(handle_, IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                rank(), received_in(recv, o).get()));
  }
  template <class T>
  request ireduce_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_reduce(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op, rank(),
                                   received_in(recv, o).get()));
  }
  template <class T>
  request reduce_in_place_init(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_reduce(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op, rank(),
                                   received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

 private:
  template <class T>
  static c_options sent_from(std::span<const T> send, const options& o) {
    return {o, send, std::span<T>()};
  }
  /// In the place of a receive buffer.
  static void* kept() { return const_cast<void*>(IBCOLL_IN_PLACE); }
};

}  // namespace ibcoll::detail
