#pragma once
/// @file
/// Of the C++ interface: reductions whose results all ranks get, or parts of them. Included by
/// ibcoll.hpp.

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "ibcoll/group_base.hpp"
#include "ibcoll/ibcoll.h"

namespace ibcoll::detail {

/// What group has of these; every call has the forms of a group's other calls. In place, what a
/// rank sends lies in recv.
class reduction_calls : public group_base {
 public:
  using group_base::group_base;

  /// @{
  /// Every rank's recv is the combination, element by element, of what all ranks send.
  template <class T>
  void allreduce(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                 const options& o = {}) const {
    detail::check(ibcoll_allreduce(handle_, at(send), at(recv), send.size(), type_of<T>(), op,
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request iallreduce(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                     const options& o = {}) const {
    return make(ibcoll_call_allreduce(at(send), at(recv), send.size(), type_of<T>(), op,
                                      c_options(o, send, recv).get()));
  }
  template <class T>
  request allreduce_init(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                         const options& o = {}) const {
    return make(ibcoll_call_allreduce(at(send), at(recv), send.size(), type_of<T>(), op,
                                      c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same in place.
  template <class T>
  void allreduce_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    detail::check(ibcoll_allreduce(handle_, IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(),
                                   op, received_in(recv, o).get()));
  }
  template <class T>
  request iallreduce_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_allreduce(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                      received_in(recv, o).get()));
  }
  template <class T>
  request allreduce_in_place_init(std::span<T> recv, ibcoll_operator op,
                                  const options& o = {}) const {
    return make(ibcoll_call_allreduce(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                      received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// What all ranks send is combined; rank i receives counts[i] elements of it, behind those of the
  /// ranks before it.
  template <class T>
  void reduce_scatter(std::span<const T> send, std::span<T> recv, std::span<const int64_t> counts,
                      ibcoll_operator op, const options& o = {}) const {
    check_counts(counts);
    detail::check(ibcoll_reduce_scatter(handle_, at(send), at(recv), counts.data(), type_of<T>(),
                                        op, c_options(o, send, recv).get()));
  }
  template <class T>
  request ireduce_scatter(std::span<const T> send, std::span<T> recv,
                          std::span<const int64_t> counts, ibcoll_operator op,
                          const options& o = {}) const {
    check_counts(counts);
    return make(ibcoll_call_reduce_scatter(at(send), at(recv), counts.data(), type_of<T>(), op,
                                           c_options(o, send, recv).get()));
  }
  template <class T>
  request reduce_scatter_init(std::span<const T> send, std::span<T> recv,
                              std::span<const int64_t> counts, ibcoll_operator op,
                              const options& o = {}) const {
    check_counts(counts);
    return make(ibcoll_call_reduce_scatter(at(send), at(recv), counts.data(), type_of<T>(), op,
                                           c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same in place: the result is at the beginning of recv.
  template <class T>
  void reduce_scatter_in_place(std::span<T> recv, std::span<const int64_t> counts,
                               ibcoll_operator op, const options& o = {}) const {
    check_counts(counts);
    detail::check(ibcoll_reduce_scatter(handle_, IBCOLL_IN_PLACE, at(recv), counts.data(),
                                        type_of<T>(), op, received_in(recv, o).get()));
  }
  template <class T>
  request ireduce_scatter_in_place(std::span<T> recv, std::span<const int64_t> counts,
                                   ibcoll_operator op, const options& o = {}) const {
    check_counts(counts);
    return make(ibcoll_call_reduce_scatter(IBCOLL_IN_PLACE, at(recv), counts.data(), type_of<T>(),
                                           op, received_in(recv, o).get()));
  }
  template <class T>
  request reduce_scatter_in_place_init(std::span<T> recv, std::span<const int64_t> counts,
                                       ibcoll_operator op, const options& o = {}) const {
    check_counts(counts);
    return make(ibcoll_call_reduce_scatter(IBCOLL_IN_PLACE, at(recv), counts.data(), type_of<T>(),
                                           op, received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same where each receives as much: send holds size() times what recv holds.
  template <class T>
  void reduce_scatter_block(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                            const options& o = {}) const {
    detail::check(ibcoll_reduce_scatter_block(handle_, at(send), at(recv), recv.size(),
                                              type_of<T>(), op, c_options(o, send, recv).get()));
  }
  template <class T>
  request ireduce_scatter_block(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                                const options& o = {}) const {
    return make(ibcoll_call_reduce_scatter_block(at(send), at(recv), recv.size(), type_of<T>(), op,
                                                 c_options(o, send, recv).get()));
  }
  template <class T>
  request reduce_scatter_block_init(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                                    const options& o = {}) const {
    return make(ibcoll_call_reduce_scatter_block(at(send), at(recv), recv.size(), type_of<T>(), op,
                                                 c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same in place: the result is at the beginning of recv.
  template <class T>
  void reduce_scatter_block_in_place(std::span<T> recv, ibcoll_operator op,
                                     const options& o = {}) const {
    detail::check(ibcoll_reduce_scatter_block(handle_, IBCOLL_IN_PLACE, at(recv),
                                              block_elements(recv), type_of<T>(), op,
                                              received_in(recv, o).get()));
  }
  template <class T>
  request ireduce_scatter_block_in_place(std::span<T> recv, ibcoll_operator op,
                                         const options& o = {}) const {
    return make(ibcoll_call_reduce_scatter_block(IBCOLL_IN_PLACE, at(recv), block_elements(recv),
                                                 type_of<T>(), op, received_in(recv, o).get()));
  }
  template <class T>
  request reduce_scatter_block_in_place_init(std::span<T> recv, ibcoll_operator op,
                                             const options& o = {}) const {
    return make(ibcoll_call_reduce_scatter_block(IBCOLL_IN_PLACE, at(recv), block_elements(recv),
                                                 type_of<T>(), op, received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// Rank i's recv is the combination of what ranks 0 to i send.
  template <class T>
  void scan(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
            const options& o = {}) const {
    detail::check(ibcoll_scan(handle_, at(send), at(recv), send.size(), type_of<T>(), op,
                              c_options(o, send, recv).get()));
  }
  template <class T>
  request iscan(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                const options& o = {}) const {
    return make(ibcoll_call_scan(at(send), at(recv), send.size(), type_of<T>(), op,
                                 c_options(o, send, recv).get()));
  }
  template <class T>
  request scan_init(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                    const options& o = {}) const {
    return make(ibcoll_call_scan(at(send), at(recv), send.size(), type_of<T>(), op,
                                 c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same in place.
  template <class T>
  void scan_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    detail::check(ibcoll_scan(handle_, IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                              received_in(recv, o).get()));
  }
  template <class T>
  request iscan_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_scan(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                 received_in(recv, o).get()));
  }
  template <class T>
  request scan_in_place_init(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_scan(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                 received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// Rank i's recv is the combination of what ranks 0 to i - 1 send; that of rank 0 is left as it
  /// is, and may be empty.
  template <class T>
  void exscan(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
              const options& o = {}) const {
    detail::check(ibcoll_exscan(handle_, at(send), at(recv), send.size(), type_of<T>(), op,
                                c_options(o, send, recv).get()));
  }
  template <class T>
  request iexscan(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                  const options& o = {}) const {
    return make(ibcoll_call_exscan(at(send), at(recv), send.size(), type_of<T>(), op,
                                   c_options(o, send, recv).get()));
  }
  template <class T>
  request exscan_init(std::span<const T> send, std::span<T> recv, ibcoll_operator op,
                      const options& o = {}) const {
    return make(ibcoll_call_exscan(at(send), at(recv), send.size(), type_of<T>(), op,
                                   c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same in place.
  template <class T>
  void exscan_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    detail::check(ibcoll_exscan(handle_, IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                received_in(recv, o).get()));
  }
  template <class T>
  request iexscan_in_place(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_exscan(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                   received_in(recv, o).get()));
  }
  template <class T>
  request exscan_in_place_init(std::span<T> recv, ibcoll_operator op, const options& o = {}) const {
    return make(ibcoll_call_exscan(IBCOLL_IN_PLACE, at(recv), recv.size(), type_of<T>(), op,
                                   received_in(recv, o).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @cond
 protected:
  template <class T>
  static c_options received_in(std::span<T> recv, const options& o) {
    return {o, std::span<const T>(), recv};
  }

 private:
  void check_counts(std::span<const int64_t> counts) const {
    if (counts.size() != static_cast<size_t>(size())) {
      throw std::invalid_argument("ibcoll: one count a rank is needed, " + std::to_string(size()) +
                                  " in all");
    }
  }
  template <class T>
  size_t block_elements(std::span<T> blocks) const {
    return block_bytes(blocks) / sizeof(T);
  }
  /// @endcond
};

}  // namespace ibcoll::detail
