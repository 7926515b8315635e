/** @file
 * ibcoll: blocks that need not be contiguous. Included by ibcoll.h.
 *
 *   // column 3 of a matrix of `rows` rows of `columns` doubles
 *   ibcoll_block column = ibcoll_block_vector(3 * sizeof(double), sizeof(double), rows,
 *                                             columns * sizeof(double));
 */
#ifndef IBCOLL_BLOCKS_H
#define IBCOLL_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup blocks Blocks that are not contiguous
 * Strided memory, for all calls that move data without combining it: ibcoll_alltoallw(), and
 * ibcoll_call::send_blocks and ibcoll_call::recv_blocks. How a block lies is the rank's own affair:
 * what one rank sends from a column another may receive into a row, if they have as many bytes.
 * @{ */

/** One block: `outer_count` elements, `outer_stride` apart, each of which has `count` runs,
 * `stride` apart, of `bytes` bytes; in this order they are the block's bytes. All in bytes. Offsets
 * and strides may be negative. Of what is sent runs may overlap; of what is received nothing may,
 * neither runs of one block nor those of two, which may lie between each other's. That is refused
 * where it is found out quickly. */
typedef struct ibcoll_block {
  int64_t offset;       /**< of the first run, from the buffer */
  int64_t bytes;        /**< of a run */
  int64_t count;        /**< runs of an element; 0: the block has no bytes */
  int64_t stride;       /**< from the beginning of one run to that of the next */
  int64_t outer_count;  /**< elements; 0: the block has no bytes */
  int64_t outer_stride; /**< from the beginning of one element to that of the next */
} ibcoll_block;

/** A block of `bytes` bytes side by side. */
static inline ibcoll_block ibcoll_block_contiguous(int64_t offset, int64_t bytes) {
  const ibcoll_block block = {offset, bytes, 1, 0, 1, 0};
  return block;
}

/** `count` runs of `bytes` bytes, `stride` apart: a column, every other element. */
static inline ibcoll_block ibcoll_block_vector(int64_t offset, int64_t bytes, int64_t count,
                                               int64_t stride) {
  const ibcoll_block block = {offset, bytes, count, stride, 1, 0};
  return block;
}

/** The same `count` times, `stride` apart: what was one block becomes an element. Of a block that
 * has elements already only the first one is taken. */
static inline ibcoll_block ibcoll_block_repeat(ibcoll_block element, int64_t count,
                                               int64_t stride) {
  element.outer_count = count;
  element.outer_stride = stride;
  return element;
}

/** How many bytes a block has. */
static inline int64_t ibcoll_block_bytes(ibcoll_block block) {
  if (block.bytes == 0 || block.count == 0 || block.outer_count == 0) return 0;
  return block.bytes * block.count * block.outer_count;
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif
