#pragma once
/// @file
/// Of the C++ interface: neighbour collectives. Included by ibcoll.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "ibcoll/basics.hpp"
#include "ibcoll/graphs.h"
#include "ibcoll/group.hpp"

namespace ibcoll {

/// A graph of who sends to whom; freed with the object, which may outlive its group: then it has
/// blocking calls only. Requests of its calls keep what they need of it. Calls have the forms that
/// those of a group have.
/// @ingroup cpp
class graph : private detail::group_base {
 public:
  /// The other one is none afterwards.
  graph(graph&& other) noexcept
      : group_base(other.handle_),
        graph_(std::exchange(other.graph_, nullptr)),
        sources_(other.sources_),
        destinations_(other.destinations_) {}
  /// The two change places.
  graph& operator=(graph&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(graph_, other.graph_);
    std::swap(sources_, other.sources_);
    std::swap(destinations_, other.destinations_);
    return *this;
  }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  ~graph() { ibcoll_graph_free(graph_); }

  /// What the C interface takes.
  ibcoll_graph* handle() const { return graph_; }
  /// How many blocks this rank receives.
  size_t sources() const { return sources_; }
  /// How many ranks it sends to.
  size_t destinations() const { return destinations_; }

  /// @{
  /// send goes to all destinations; block i of recv comes from source i.
  template <class T>
  void allgather(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_neighbor_allgather(graph_, at(send), at(recv), send.size_bytes(),
                                            c_options(o, send, recv).get()));
  }
  template <class T>
  request iallgather(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_neighbor_allgather(graph_, at(send), at(recv), send.size_bytes(),
                                               c_options(o, send, recv).get()));
  }
  template <class T>
  request allgather_init(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_neighbor_allgather(graph_, at(send), at(recv), send.size_bytes(),
                                               c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place, in bytes, for the block of each source.
  template <class T>
  void allgatherv(std::span<const T> send, std::span<T> recv, const layout& l,
                  const options& o = {}) const {
    check_slots(l, sources_);
    detail::check(ibcoll_neighbor_allgatherv(graph_, at(send), bytes(send), at(recv),
                                             l.counts.data(), l.displacements.data(),
                                             c_options(o, send, recv).get()));
  }
  template <class T>
  request iallgatherv(std::span<const T> send, std::span<T> recv, const layout& l,
                      const options& o = {}) const {
    check_slots(l, sources_);
    return make(ibcoll_call_neighbor_allgatherv(graph_, at(send), bytes(send), at(recv),
                                                l.counts.data(), l.displacements.data(),
                                                c_options(o, send, recv).get()));
  }
  template <class T>
  request allgatherv_init(std::span<const T> send, std::span<T> recv, const layout& l,
                          const options& o = {}) const {
    check_slots(l, sources_);
    return make(
        ibcoll_call_neighbor_allgatherv(graph_, at(send), bytes(send), at(recv), l.counts.data(),
                                        l.displacements.data(), c_options(o, send, recv).get()),
        IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// Block i of send goes to destination i, block i of recv comes from source i. All blocks have
  /// the same number of elements.
  template <class T>
  void alltoall(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    detail::check(ibcoll_neighbor_alltoall(graph_, at(send), at(recv), slot_bytes(send, recv),
                                           c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoall(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_neighbor_alltoall(graph_, at(send), at(recv), slot_bytes(send, recv),
                                              c_options(o, send, recv).get()));
  }
  template <class T>
  request alltoall_init(std::span<const T> send, std::span<T> recv, const options& o = {}) const {
    return make(ibcoll_call_neighbor_alltoall(graph_, at(send), at(recv), slot_bytes(send, recv),
                                              c_options(o, send, recv).get()),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a length and a place, in bytes, for the block of each destination and source.
  template <class T>
  void alltoallv(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                 const layout& recv_layout, const options& o = {}) const {
    check_slots(send_layout, destinations_);
    check_slots(recv_layout, sources_);
    detail::check(ibcoll_neighbor_alltoallv(
        graph_, at(send), send_layout.counts.data(), send_layout.displacements.data(), at(recv),
        recv_layout.counts.data(), recv_layout.displacements.data(),
        c_options(o, send, recv).get()));
  }
  template <class T>
  request ialltoallv(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                     const layout& recv_layout, const options& o = {}) const {
    return make(alltoallv_call(send, send_layout, recv, recv_layout, c_options(o, send, recv)));
  }
  template <class T>
  request alltoallv_init(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                         const layout& recv_layout, const options& o = {}) const {
    return make(alltoallv_call(send, send_layout, recv, recv_layout, c_options(o, send, recv)),
                IBCOLL_PERSISTENT);
  }
  /// @}

  /// @{
  /// The same with a layout for the block of each destination and source, in bytes from the
  /// beginning of the buffer, in which all blocks must lie.
  template <class T>
  void alltoallw(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                 std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                 const options& o = {}) const {
    const c_options given(o, send, recv);
    const ibcoll_call call = alltoallw_call(send, send_blocks, recv, recv_blocks, given);
    detail::check(ibcoll_neighbor_alltoallw(graph_, call.send, call.send_blocks, call.recv,
                                            call.recv_blocks, call.options));
  }
  template <class T>
  request ialltoallw(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                     std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                     const options& o = {}) const {
    return make(alltoallw_call(send, send_blocks, recv, recv_blocks, c_options(o, send, recv)));
  }
  template <class T>
  request alltoallw_init(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                         std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                         const options& o = {}) const {
    return make(alltoallw_call(send, send_blocks, recv, recv_blocks, c_options(o, send, recv)),
                IBCOLL_PERSISTENT);
  }
  /// @}

 private:
  friend class group;
  graph(ibcoll_group* group, std::span<const int> sources, std::span<const int> destinations)
      : group_base(group), sources_(sources.size()), destinations_(destinations.size()) {
    detail::check(ibcoll_graph_create(group, static_cast<int>(sources_), sources.data(),
                                      static_cast<int>(destinations_), destinations.data(),
                                      &graph_));
  }

  static void check_slots(const layout& l, size_t slots) {
    if (l.counts.size() == slots && l.displacements.size() == slots) return;
    throw std::invalid_argument("ibcoll: one count and one displacement a neighbour are needed, " +
                                std::to_string(slots) + " in all");
  }
  static size_t divide(size_t elements, size_t blocks) {
    if (blocks != 0 && elements % blocks == 0) return elements / blocks;
    throw std::invalid_argument("ibcoll: a buffer of " + std::to_string(elements) +
                                " elements does not divide into " + std::to_string(blocks) +
                                " blocks");
  }
  /// Of the side that has blocks; that the other one has room is checked with the call.
  template <class T>
  size_t slot_bytes(std::span<const T> send, std::span<T> recv) const {
    if (destinations_ != 0) return divide(send.size(), destinations_) * sizeof(T);
    return sources_ == 0 ? 0 : divide(recv.size(), sources_) * sizeof(T);
  }
  template <class T>
  ibcoll_call alltoallv_call(std::span<const T> send, const layout& send_layout, std::span<T> recv,
                             const layout& recv_layout, const c_options& o) const {
    check_slots(send_layout, destinations_);
    check_slots(recv_layout, sources_);
    return ibcoll_call_neighbor_alltoallv(
        graph_, at(send), send_layout.counts.data(), send_layout.displacements.data(), at(recv),
        recv_layout.counts.data(), recv_layout.displacements.data(), o.get());
  }

  template <class T>
  ibcoll_call alltoallw_call(std::span<const T> send, std::span<const ibcoll_block> send_blocks,
                             std::span<T> recv, std::span<const ibcoll_block> recv_blocks,
                             const c_options& o) const {
    if (send_blocks.size() != destinations_ || recv_blocks.size() != sources_) {
      throw std::invalid_argument("ibcoll: one block a neighbour is needed, " +
                                  std::to_string(destinations_) + " to send and " +
                                  std::to_string(sources_) + " to receive");
    }
    return ibcoll_call_neighbor_alltoallw(graph_, at(send), send_blocks.data(), at(recv),
                                          recv_blocks.data(), o.get());
  }

  ibcoll_graph* graph_ = nullptr;
  size_t sources_, destinations_;
};

inline graph group::make_graph(std::span<const int> sources,
                               std::span<const int> destinations) const {
  return {handle_, sources, destinations};
}

}  // namespace ibcoll
