// A product of matrices in float32: a block computes ROWS x COLUMNS elements, a thread
// THREAD_ROWS x THREAD_COLUMNS of them in registers, in pieces of 4 x 4 as far apart as a warp is
// wide, so that what a warp reads at once lies side by side. DEPTH inner elements at a time are in
// shared memory, left with its rows side by side, STAGES of them on their way or in use. Fragments
// of the next inner element are read while those of one are multiplied, over the ends of stages.
//
// Every element is summed in ascending order with one rounding a term. Rows and columns behind the
// end are read from the last ones, and not written. Blocks follow each other down columns of
// `width` blocks. Rows of right begin `pitch` elements apart, a multiple of four, as `pad` makes
// them; if DIRECT, they begin anywhere and are brought element by element, which takes longer but
// no copy before. VECTOR is 4 where rows of out begin at multiples of 16 bytes, else 1.
#ifdef __CUDACC__
__device__ __forceinline__ void copy_async4(void *into, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async16(void *into, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LATEST> __device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}
#endif

#define WARP_ROWS (LANE_ROWS * THREAD_ROWS)
#define LANE_COLUMNS (32 / LANE_ROWS)
#define WARP_COLUMNS (LANE_COLUMNS * THREAD_COLUMNS)
#define WARPS_DOWN (ROWS / WARP_ROWS)
// Four more, so that writes of one row with successive inner elements use different banks.
#define PITCH (ROWS + 4)
#define STAGE (DEPTH * (PITCH + COLUMNS))
#define TURNED (WARP_COLUMNS + 4)

// Where a thread brings elements of left from: its rows, one after the other.
__device__ __forceinline__ void rows_of(int (&from)[ROWS * DEPTH / THREADS], const int last,
                                        const int inner) {
  const int at = (int)threadIdx.x % DEPTH, first = (int)threadIdx.x / DEPTH;
#pragma unroll
  for (int n = 0; n < ROWS * DEPTH / THREADS; ++n)
    from[n] = min(first + n * (THREADS / DEPTH), last) * inner + at;
}

// `left` points to element k of the first row, `left_over` are the elements from there on.
__device__ __forceinline__ void bring_left(float *stage, const float *__restrict__ left,
                                           const int (&from)[ROWS * DEPTH / THREADS],
                                           const int left_over) {
  const int at = (int)threadIdx.x % DEPTH, first = (int)threadIdx.x / DEPTH;
  float *into = stage + at * PITCH + first;
  if (left_over >= DEPTH) {
#pragma unroll
    for (int n = 0; n < ROWS * DEPTH / THREADS; ++n)
      copy_async4(into + n * (THREADS / DEPTH), left + from[n]);
  } else {
#pragma unroll
    for (int n = 0; n < ROWS * DEPTH / THREADS; ++n) {
      float *to = into + n * (THREADS / DEPTH);
      if (at < left_over) copy_async4(to, left + from[n]);
      else *to = 0.0f;
    }
  }
}

#if DIRECT
// Elements by themselves: neighbouring threads have neighbouring columns.
__device__ __forceinline__ void bring_right(float *stage, const float *__restrict__ right,
                                            const int column, const int pitch,
                                            const int left_over) {
  constexpr int step = THREADS >= COLUMNS ? THREADS / COLUMNS : 1;
  constexpr int wide = THREADS >= COLUMNS ? 1 : COLUMNS / THREADS;
  const int at = THREADS >= COLUMNS ? (int)threadIdx.x / COLUMNS : 0;
  const int across = (int)threadIdx.x % COLUMNS;
#pragma unroll
  for (int w = 0; w < wide; ++w) {
    const int x = across + w * THREADS;
    float *into = stage + at * COLUMNS + x;
    const float *from = right + (at * pitch + min(column + x, pitch - 1));
    if (left_over >= DEPTH) {
#pragma unroll
      for (int n = 0; n < DEPTH / step; ++n) {
        copy_async4(into + n * step * COLUMNS, from);
        from += step * pitch;
      }
    } else {
#pragma unroll
      for (int n = 0; n < DEPTH / step; ++n) {
        if (at + n * step < left_over) copy_async4(into + n * step * COLUMNS, from + n * step * pitch);
        else into[n * step * COLUMNS] = 0.0f;
      }
    }
  }
}
#else
// `right` points to element k of the first column of the matrix.
__device__ __forceinline__ void bring_right(float *stage, const float *__restrict__ right,
                                            const int column, const int pitch,
                                            const int left_over) {
  constexpr int pieces = COLUMNS / 4, step = THREADS / pieces;
  static_assert(THREADS % pieces == 0 || pieces % THREADS == 0, "rows are brought whole");
  static_assert(DEPTH * pieces % THREADS == 0, "every thread brings as many pieces");
#pragma unroll
  for (int n = 0; n < DEPTH * pieces / THREADS; ++n) {
    const int piece = step ? (int)threadIdx.x : (int)threadIdx.x + n * THREADS;
    const int at = step ? piece / pieces + n * step : piece / pieces;
    const int across = piece % pieces * 4;
    float *into = stage + at * COLUMNS + across;
    if (left_over >= DEPTH || at < left_over) {
      copy_async16(into, right + (at * pitch + min(column + across, pitch - 4)));
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) into[v] = 0.0f;
    }
  }
}
#endif

// Read the fragments for one inner element.
__device__ __forceinline__ void fragments(const float *stage, const int k, const int row,
                                          const int column, float (&a)[THREAD_ROWS],
                                          float (&b)[THREAD_COLUMNS]) {
  const float *left = stage + k * PITCH + row, *right = stage + DEPTH * PITCH + k * COLUMNS + column;
#pragma unroll
  for (int n = 0; n < THREAD_ROWS; n += 4)
    *(float4 *)&a[n] = *(const float4 *)(left + n * LANE_ROWS);
#pragma unroll
  for (int n = 0; n < THREAD_COLUMNS; n += 4)
    *(float4 *)&b[n] = *(const float4 *)(right + n * LANE_COLUMNS);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    multiply(const float *__restrict__ left, const float *__restrict__ right,
             float *__restrict__ out, int rows, int columns, int pitch, int inner, int down,
             int across, int width) {
  extern __shared__ __align__(16) float memory[];
  const int number = (int)blockIdx.x / (down * width), start = number * width;
  const int wide = min(width, across - start), rest = (int)blockIdx.x - number * down * width;
  const int top = rest / wide * ROWS, side = (start + rest % wide) * COLUMNS;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int lane_row = lane % LANE_ROWS, lane_column = lane / LANE_ROWS;
  const int row = warp % WARPS_DOWN * WARP_ROWS + lane_row * 4;
  const int column = warp / WARPS_DOWN * WARP_COLUMNS + lane_column * 4;
  left += (long long)top * inner;
  const int tiles = (inner + DEPTH - 1) / DEPTH;
  int from[ROWS * DEPTH / THREADS];
  rows_of(from, rows - 1 - top, inner);

#pragma unroll
  for (int n = 0; n < STAGES - 1; ++n) {
    if (n < tiles) {
      bring_left(memory + n * STAGE, left, from, inner - n * DEPTH);
      bring_right(memory + n * STAGE + DEPTH * PITCH, right, side, pitch, inner - n * DEPTH);
      left += DEPTH;
      right += (long long)DEPTH * pitch;
    }
    copy_async_commit();
  }
  float sum[THREAD_ROWS][THREAD_COLUMNS];
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i)
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; ++j) sum[i][j] = 0.0f;
  __align__(16) float a[2][THREAD_ROWS];
  __align__(16) float b[2][THREAD_COLUMNS];
  copy_async_wait<STAGES - 2>();
  __syncthreads();
  if (tiles > 0) fragments(memory, 0, row, column, a[0], b[0]);
  int now = 0, free = STAGES - 1;
  for (int tile = 0; tile < tiles; ++tile) {
    const int next = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      if (k == DEPTH - 1) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
      }
      const int stage = k == DEPTH - 1 ? next : now;
      fragments(memory + stage * STAGE, (k + 1) % DEPTH, row, column, a[(k + 1) % 2],
                b[(k + 1) % 2]);
      if (k == 0) {
        const int ahead = tile + STAGES - 1;
        if (ahead < tiles) {
          float *room = memory + free * STAGE;
          bring_left(room, left, from, inner - ahead * DEPTH);
          bring_right(room + DEPTH * PITCH, right, side, pitch, inner - ahead * DEPTH);
          left += DEPTH;
          right += (long long)DEPTH * pitch;
        }
        copy_async_commit();
      }
#pragma unroll
      for (int i = 0; i < THREAD_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; ++j)
          sum[i][j] = __fmaf_rn(a[k % 2][i], b[k % 2][j], sum[i][j]);
    }
    free = now;
    now = next;
  }
  copy_async_wait<0>();

#if VECTOR == 4
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    const int y = top + row + i / 4 * 4 * LANE_ROWS + i % 4;
    if (y >= rows) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) {
      const int x = side + column + j * LANE_COLUMNS;
      if (x < columns)
        *(float4 *)(out + (long long)y * columns + x) =
            make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
    }
  }
#else
  // A warp turns a row of each of its lanes at a time, so that what it writes at once lies side by
  // side: four writes of every fourth element would be four times as many for the cache.
  __syncthreads();
  float *turned = memory + warp * (LANE_ROWS * TURNED);
  const int x = side + warp / WARPS_DOWN * WARP_COLUMNS + lane;
  const int y = top + warp % WARPS_DOWN * WARP_ROWS;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4)
      *(float4 *)(turned + lane_row * TURNED + lane_column * 4 + j * LANE_COLUMNS) =
          make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
      const int down = y + r * 4 + i / 4 * 4 * LANE_ROWS + i % 4;
#pragma unroll
      for (int c = 0; c < WARP_COLUMNS; c += 32)
        if (down < rows && c + lane < WARP_COLUMNS && x + c < columns)
          out[(long long)down * columns + x + c] = turned[r * TURNED + c + lane];
    }
    __syncwarp();
  }
#endif
}

// Copy rows to where they begin `pitch` elements apart; a thread makes four elements of each of
// some rows, zero from `columns` on.
extern "C" __global__ void pad(const float *__restrict__ from, float *__restrict__ into, int rows,
                               int columns, int pitch) {
  const int x = ((int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x) * 4;
  if (x >= pitch) return;
  for (int y = (int)blockIdx.y; y < rows; y += (int)gridDim.y) {
    const float *a = from + (long long)y * columns;
    float four[4];
#pragma unroll
    for (int v = 0; v < 4; ++v) four[v] = x + v < columns ? a[x + v] : 0.0f;
    *(float4 *)(into + (long long)y * pitch + x) = make_float4(four[0], four[1], four[2], four[3]);
  }
}
