// A product of matrices in float32: a block computes ROWS x COLUMNS elements, a thread
// THREAD_ROWS x THREAD_COLUMNS of them in registers, in pieces of 4 x 4 as far apart as a warp is
// wide, so that what a warp reads at once lies side by side. DEPTH inner elements at a time are in
// shared memory, left with its rows side by side, STAGES of them on their way or in use. Fragments
// of the next inner element are read while those of one are multiplied, over the ends of stages.
//
// Every element is summed in ascending order with one rounding a term. Rows and columns behind the
// end are read from the last ones, and not written. Blocks follow each other down columns of
// `width` blocks. Rows of right begin `pitch` elements apart, a multiple of four; `pad` makes them
// so. VECTOR is 4 where rows of out begin at multiples of 16 bytes, else 1.
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

// `left` points to element k of the first row, `left_over` are the elements from there on.
__device__ __forceinline__ void bring_left(float *stage, const float *__restrict__ left,
                                           const int last, const int inner, const int left_over) {
  const int at = (int)threadIdx.x % DEPTH, first = (int)threadIdx.x / DEPTH;
  float *into = stage + at * PITCH + first;
#pragma unroll
  for (int n = 0; n < ROWS * DEPTH / THREADS; ++n) {
    const int row = first + n * (THREADS / DEPTH);
    if (at < left_over) copy_async4(into + row - first, left + (min(row, last) * inner + at));
    else into[row - first] = 0.0f;
  }
}

// `right` points to element k of the first column of the matrix.
__device__ __forceinline__ void bring_right(float *stage, const float *__restrict__ right,
                                            const int column, const int pitch,
                                            const int left_over) {
  constexpr int pieces = COLUMNS / 4, step = THREADS / pieces;
  static_assert(THREADS % pieces == 0 || pieces % THREADS == 0, "rows are brought whole");
#pragma unroll
  for (int n = 0; n < DEPTH * pieces / THREADS; ++n) {
    const int piece = step ? (int)threadIdx.x : (int)threadIdx.x + n * THREADS;
    const int at = step ? piece / pieces + n * step : piece / pieces;
    const int across = piece % pieces * 4;
    float *into = stage + at * COLUMNS + across;
    if (at < left_over) {
      copy_async16(into, right + (at * pitch + min(column + across, pitch - 4)));
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) into[v] = 0.0f;
    }
  }
}

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
  const int last = rows - 1 - top, tiles = (inner + DEPTH - 1) / DEPTH;

#pragma unroll
  for (int n = 0; n < STAGES - 1; ++n) {
    if (n < tiles) {
      bring_left(memory + n * STAGE, left, last, inner, inner - n * DEPTH);
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
          bring_left(room, left, last, inner, inner - ahead * DEPTH);
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

#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    const int y = top + row + i / 4 * 4 * LANE_ROWS + i % 4;
    if (y >= rows) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) {
      const int x = side + column + j * LANE_COLUMNS;
      float *to = out + (long long)y * columns + x;
#if VECTOR == 4
      if (x < columns)
        *(float4 *)to = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
#else
#pragma unroll
      for (int v = 0; v < 4; ++v)
        if (x + v < columns) to[v] = sum[i][j + v];
#endif
    }
  }
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
