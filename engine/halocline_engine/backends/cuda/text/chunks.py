"""Device functions that move chunks of columns between memory and shared memory."""

from __future__ import annotations

__all__ = ["CHUNKS"]

#: A warp moves the levels from `base` on that lie from `low` to below `high`, LEVELS of each of 32
#: columns; columns are PITCH elements apart in shared memory, and levels are there modulo
#: MASK + 1. What is no larger than 4 or 8 bytes arrives with the other asynchronous copies.
CHUNKS = """\
template <int LEVELS, int PITCH, int MASK, class T>
__device__ __forceinline__ void load_chunk(
    T *into, const T *from, const index_t *columns, int base, int low, int high) {
  const int lane = (int)threadIdx.x, level = base + lane % LEVELS;
  if (level >= low && level < high) {
    #pragma unroll
    for (int n = 0; n < LEVELS; ++n) {
      const int column = n * (32 / LEVELS) + lane / LEVELS;
      T *const to = into + column * PITCH + (level & MASK);
      const T *const place = from + (columns[column] + level);
      if constexpr (sizeof(T) == 8) copy_async8(to, place);
      else if constexpr (sizeof(T) == 4) copy_async4(to, place);
      else *to = *place;
    }
  }
}
template <int LEVELS, int PITCH, int MASK, class T>
__device__ __forceinline__ void store_chunk(
    T *into, const T *from, const index_t *columns, int base, int low, int high, int own) {
  const int lane = (int)threadIdx.x, level = base + lane % LEVELS;
  if (level >= low && level < high) {
    #pragma unroll
    for (int n = 0; n < LEVELS; ++n) {
      const int column = n * (32 / LEVELS) + lane / LEVELS;
      if (column < own) into[columns[column] + level] = from[column * PITCH + (level & MASK)];
    }
  }
}
"""
