"""Device functions that move chunks of columns between memory and shared memory."""

from __future__ import annotations

__all__ = ["CHUNKS"]

#: A warp moves the levels from `base` on that lie from `low` to below `high`, LEVELS of each of 32
#: columns, and what is no larger than 4 or 8 bytes arrives with the other asynchronous copies. In
#: shared memory columns are PITCH elements apart and levels are there modulo MASK + 1. Every thread
#: has the offsets of the columns that it moves elements of. `load_levels` and `store_levels` move
#: levels that have an element of each column in both memories, 16 bytes at a time.
CHUNKS = """\
template <int LEVELS>
__device__ __forceinline__ void find_columns(index_t (&columns)[LEVELS], index_t own) {
  #pragma unroll
  for (int n = 0; n < LEVELS; ++n)
    columns[n] = __shfl_sync(~0u, own, n * (32 / LEVELS) + (int)threadIdx.x / LEVELS);
}
template <int LEVELS, int PITCH, int MASK, int COUNT, class T>
__device__ __forceinline__ void load_chunk(
    T *into, const T *from, const index_t (&columns)[COUNT], int base, int low, int high) {
  constexpr int LEAST = LEVELS < 32 ? LEVELS : 32;
  const int lane = (int)threadIdx.x;
  #pragma unroll
  for (int part = 0; part < LEVELS; part += LEAST) {
    const int level = base + part + lane % LEAST;
    if (level >= low && level < high) {
      #pragma unroll
      for (int n = 0; n < COUNT; ++n) {
        T *const to = into + (n * (32 / LEAST) + lane / LEAST) * PITCH + (level & MASK);
        const T *const place = from + (columns[n] + level);
        if constexpr (sizeof(T) == 8) copy_async8(to, place);
        else if constexpr (sizeof(T) == 4) copy_async4(to, place);
        else *to = *place;
      }
    }
  }
}
template <int LEVELS, int PITCH, int MASK, int COUNT, class T>
__device__ __forceinline__ void store_chunk(
    T *into, const T *from, const index_t (&columns)[COUNT], int base, int low, int high,
    int own) {
  constexpr int LEAST = LEVELS < 32 ? LEVELS : 32;
  const int lane = (int)threadIdx.x;
  #pragma unroll
  for (int part = 0; part < LEVELS; part += LEAST) {
    const int level = base + part + lane % LEAST;
    if (level >= low && level < high) {
      T values[COUNT];
      #pragma unroll
      for (int n = 0; n < COUNT; ++n)
        values[n] = from[(n * (32 / LEAST) + lane / LEAST) * PITCH + (level & MASK)];
      #pragma unroll
      for (int n = 0; n < COUNT; ++n)
        if (n * (32 / LEAST) + lane / LEAST < own) into[columns[n] + level] = values[n];
    }
  }
}
template <class T> struct alignas(16) LevelPack { T v[16 / sizeof(T)]; };
template <int LEVELS, int MASK, class T>
__device__ __forceinline__ void load_levels(
    T *into, const T *from, int base, int low, int high) {
  constexpr int PACK = 16 / sizeof(T), LANES = 32 / PACK;
  const int lane = (int)threadIdx.x, column = lane % LANES * PACK;
  #pragma unroll
  for (int part = 0; part < LEVELS; part += PACK) {
    const int ahead = part + lane / LANES, level = base + ahead;
    if (ahead < LEVELS && level >= low && level < high)
      copy_async16(into + ((level & MASK) * 32 + column), from + (level * 32 + column));
  }
}
template <int LEVELS, int MASK, class T>
__device__ __forceinline__ void store_levels(
    T *into, const T *from, int base, int low, int high) {
  constexpr int PACK = 16 / sizeof(T), LANES = 32 / PACK;
  const int lane = (int)threadIdx.x, column = lane % LANES * PACK;
  #pragma unroll
  for (int part = 0; part < LEVELS; part += PACK) {
    const int ahead = part + lane / LANES, level = base + ahead;
    if (ahead < LEVELS && level >= low && level < high)
      *reinterpret_cast<LevelPack<T> *>(into + (level * 32 + column)) =
          *reinterpret_cast<const LevelPack<T> *>(from + ((level & MASK) * 32 + column));
  }
}
"""
