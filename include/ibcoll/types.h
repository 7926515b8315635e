/** @file
 * ibcoll: what reductions combine, and how. Included by ibcoll.h.
 */
#ifndef IBCOLL_TYPES_H
#define IBCOLL_TYPES_H

/** @addtogroup calls
 * @{ */

/** Elements of a reduction. */
typedef enum ibcoll_type {
  IBCOLL_INT8 = 0,                 /**< 8 bits, signed */
  IBCOLL_UINT8 = 1,                /**< 8 bits, unsigned */
  IBCOLL_INT16 = 2,                /**< 16 bits, signed */
  IBCOLL_UINT16 = 3,               /**< 16 bits, unsigned */
  IBCOLL_INT32 = 4,                /**< 32 bits, signed */
  IBCOLL_UINT32 = 5,               /**< 32 bits, unsigned */
  IBCOLL_INT64 = 6,                /**< 64 bits, signed */
  IBCOLL_UINT64 = 7,               /**< 64 bits, unsigned */
  IBCOLL_FLOAT = 8,                /**< float */
  IBCOLL_DOUBLE = 9,               /**< double */
  IBCOLL_LONG_DOUBLE = 10,         /**< long double */
  IBCOLL_FLOAT_COMPLEX = 11,       /**< float _Complex */
  IBCOLL_DOUBLE_COMPLEX = 12,      /**< double _Complex */
  IBCOLL_LONG_DOUBLE_COMPLEX = 13, /**< long double _Complex */
  IBCOLL_BOOL = 14,                /**< _Bool: what is not 0 is true, results are 0 and 1 */
  IBCOLL_BYTE = 15,                /**< 8 bits that are no number */
  IBCOLL_FLOAT16 = 16,         /**< 16 bits: the IEEE's binary16, 5 of exponent, 10 of fraction */
  IBCOLL_BFLOAT16 = 17,        /**< 16 bits: the upper half of a float */
  IBCOLL_FLOAT_INT = 18,       /**< struct { float value; int index; } */
  IBCOLL_DOUBLE_INT = 19,      /**< struct { double value; int index; } */
  IBCOLL_LONG_INT = 20,        /**< struct { long value; int index; } */
  IBCOLL_INT_INT = 21,         /**< struct { int value; int index; } */
  IBCOLL_SHORT_INT = 22,       /**< struct { short value; int index; } */
  IBCOLL_LONG_DOUBLE_INT = 23, /**< struct { long double value; int index; } */
  IBCOLL_OWN = 24 /**< of the program's: for operators of ibcoll_operator_create() alone */
} ibcoll_type;

/** How they are combined. Which operators a type has is a table in docs/api.md, which says, too,
 * how numbers are rounded and what becomes of NaN; all else is refused. An operator of the
 * program's own is a number that ibcoll_operator_create() gives. */
typedef enum ibcoll_operator {
  IBCOLL_SUM = 0,     /**< a + b; integers wrap around */
  IBCOLL_PRODUCT = 1, /**< a * b; integers wrap around */
  IBCOLL_MIN = 2,     /**< the smaller one */
  IBCOLL_MAX = 3,     /**< the larger one */
  IBCOLL_BAND = 4,    /**< a & b */
  IBCOLL_BOR = 5,     /**< a | b */
  IBCOLL_BXOR = 6,    /**< a ^ b */
  IBCOLL_LAND = 7,    /**< a && b: 0 or 1 */
  IBCOLL_LOR = 8,     /**< a || b: 0 or 1 */
  IBCOLL_LXOR = 9,    /**< !a != !b: 0 or 1 */
  IBCOLL_MINLOC =
      10, /**< of values and indices: the smaller value, of equal ones the lower index */
  IBCOLL_MAXLOC = 11, /**< of values and indices: the larger value, of equal ones the lower index */
  IBCOLL_REPLACE = 12,          /**< b: what the highest rank has */
  IBCOLL_NO_OP = 13,            /**< a: what the lowest rank has */
  IBCOLL_FIRST_OWN = 0x40000000 /**< the program's own begin here; this one is none */
} ibcoll_operator;

/** @} */

#endif
