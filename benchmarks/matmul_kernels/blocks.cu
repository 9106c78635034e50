// A product of matrices in float32: a block computes ROWS x COLUMNS elements at a time, a thread
// THREAD_ROWS x THREAD_COLUMNS of them in registers, in pieces of 4 x 4 as far apart as a warp is
// wide, so that what a warp reads at once lies side by side. DEPTH inner elements, a stage, are in
// shared memory at a time, left with its rows side by side, STAGES stages on their way or in use.
// Fragments of the next inner element are read while those of one are multiplied, over the ends of
// stages.
//
// Blocks stay to the end. They do the tiles in waves, all of them one each; the stages of the last
// tiles, `split` of them, are shared out evenly, so that no block waits for others at the end. A
// tile may so be done by several blocks. If CHAINED, which takes as many tiles as blocks, one goes
// on where the other has stopped, and every element is summed in ascending order with one rounding
// a term. Otherwise each adds up its own terms, and the block that has the last ones adds the sums
// of the others, in their order. SLICES groups of threads may share the inner elements of every
// stage; then their sums are added at the end, in their order. So bits depend on sizes and on the
// number of places for blocks on the device.
//
// Nothing is brought of rows and columns behind the end: many copies of one element take longer
// than as many of different ones. What is computed of them is not written. Tiles follow each other
// down columns of `width` tiles. Rows of right begin `pitch` elements apart, a multiple of four, as
// `pad` makes them; if DIRECT, they begin anywhere and are brought element by element, which takes
// longer but no copy before. VECTOR is 4 where rows of out begin at multiples of 16 bytes, else 1.
#ifdef __CUDACC__
__device__ __forceinline__ void copy_async4(void *into, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async16(void *into, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
// Copies if `there`, and zeros otherwise, of an address that is not read.
__device__ __forceinline__ void copy_async4_if(const bool there, void *into, const void *from) {
  asm volatile("{\n .reg .pred absent;\n setp.eq.s32 absent, %2, 0;\n"
               " cp.async.ca.shared.global [%0], [%1], 4, absent;\n}" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from), "r"((int)there)
               : "memory");
}
__device__ __forceinline__ void copy_async16_if(const bool there, void *into, const void *from) {
  asm volatile("{\n .reg .pred absent;\n setp.eq.s32 absent, %2, 0;\n"
               " cp.async.cg.shared.global [%0], [%1], 16, absent;\n}" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from), "r"((int)there)
               : "memory");
}
__device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LATEST> __device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}
// Wait until another block has set a flag behind what it has written.
__device__ __forceinline__ void flag_wait(unsigned *flag) {
  unsigned there;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
  } while (!there);
}
__device__ __forceinline__ void flag_set(unsigned *flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
#endif

#define SLICE_THREADS (THREADS / SLICES)
#define SLICE_DEPTH (DEPTH / SLICES)
#define WARP_ROWS (LANE_ROWS * THREAD_ROWS)
#define LANE_COLUMNS (32 / LANE_ROWS)
#define WARP_COLUMNS (LANE_COLUMNS * THREAD_COLUMNS)
#define WARPS_DOWN (ROWS / WARP_ROWS)
// Four more, so that writes of one row with successive inner elements use different banks.
#define PITCH (ROWS + 4)
#define STAGE (DEPTH * (PITCH + COLUMNS))
#define TURNED (WARP_COLUMNS + 4)
// Elements of shared memory before those of the rows that are turned.
#define SLICED (SLICES > 1 ? SLICES * ROWS * COLUMNS : 0)
#define ROOM (SLICED > STAGES * STAGE ? SLICED : STAGES * STAGE)
// Rows of left that a thread brings, and how far apart they are.
#define ROW_STEP (THREADS / DEPTH)
#define BROUGHT (ROWS / ROW_STEP)

static_assert(SLICES == 1 || !CHAINED, "sums of slices cannot go on");

// Elements of right that a thread moves at once, how many times it does so for a stage, and where.
#define PIECE (DIRECT ? 1 : 4)
#define ACROSS (COLUMNS / PIECE)
#define WIDE (ACROSS > THREADS ? ACROSS / THREADS : 1)
#define PIECES (DEPTH * ACROSS / THREADS)
static_assert(THREADS % ACROSS == 0 || ACROSS % THREADS == 0, "rows are brought whole");
static_assert(DEPTH * ACROSS % THREADS == 0, "every thread brings as many pieces");

__device__ __forceinline__ int piece_row(const int n) {
  if (THREADS >= ACROSS) return (int)threadIdx.x / ACROSS + n * (THREADS / ACROSS);
  return n / WIDE;
}
__device__ __forceinline__ int piece_column(const int n) {
  if (THREADS >= ACROSS) return (int)threadIdx.x % ACROSS * PIECE;
  return ((int)threadIdx.x + n % WIDE * THREADS) * PIECE;
}
__device__ __forceinline__ void copy_piece(float *into, const float *from) {
  if (PIECE == 4) copy_async16(into, from);
  else copy_async4(into, from);
}
__device__ __forceinline__ void copy_piece_if(const bool there, float *into, const float *from) {
  if (PIECE == 4) copy_async16_if(there, into, from);
  else copy_async4_if(there, into, from);
}

typedef float Sums[THREAD_ROWS][THREAD_COLUMNS];

// Bring the elements of a stage. `left` points to the first one of the thread, and `from` says how
// far behind it the others are; `right` points to the first column of the matrix. There are zeros
// behind the last row, column and inner element, `left_over` of which are left from the start of
// the stage on. Copies of the last ones would take longer: many of one element are slow. What is
// `whole`, the tile in both matrices, needs no questions.
__device__ __forceinline__ void bring_stage(float *stage, const float *__restrict__ left,
                                            const int (&from)[BROUGHT], const int there,
                                            const float *__restrict__ right, const int column,
                                            const int pitch, const int left_over,
                                            const bool whole) {
  const int k = (int)threadIdx.x % DEPTH, rows = k < left_over ? there : 0;
  float *into = stage + k * PITCH + (int)threadIdx.x / DEPTH;
  float *piece = stage + DEPTH * PITCH;
  if (whole && left_over >= DEPTH) {
#pragma unroll
    for (int n = 0; n < BROUGHT; ++n) copy_async4(into + n * ROW_STEP, left + from[n]);
#pragma unroll
    for (int n = 0; n < PIECES; ++n) {
      const int at = piece_row(n), across = piece_column(n);
      copy_piece(piece + at * COLUMNS + across, right + (at * pitch + column + across));
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < BROUGHT; ++n)
    copy_async4_if(n < rows, into + n * ROW_STEP, left + from[n]);
#pragma unroll
  for (int n = 0; n < PIECES; ++n) {
    const int at = piece_row(n), across = piece_column(n);
    copy_piece_if(at < left_over && column + across < pitch, piece + at * COLUMNS + across,
                  right + (at * pitch + column + across));
  }
}

// Read the fragments for one inner element.
__device__ __forceinline__ void fragments(const float *stage, const int k, const int row,
                                          const int column, float (&a)[THREAD_ROWS],
                                          float (&b)[THREAD_COLUMNS]) {
  const float *left = stage + k * PITCH + row;
  const float *right = stage + DEPTH * PITCH + k * COLUMNS + column;
#pragma unroll
  for (int n = 0; n < THREAD_ROWS; n += 4)
    *(float4 *)&a[n] = *(const float4 *)(left + n * LANE_ROWS);
#pragma unroll
  for (int n = 0; n < THREAD_COLUMNS; n += 4)
    *(float4 *)&b[n] = *(const float4 *)(right + n * LANE_COLUMNS);
}

// What a block does at a time: stages `begin` to `end` of a tile.
struct Piece {
  int tile, begin, end;
};

// The share of a block: a tile of each wave, then whole tiles of those that are split, from `tile`
// on. In front of them are stages from `from` on of the tile before, which blocks before have
// begun, and behind them the first `into` stages of the tile after, which blocks after go on with.
// The start of a tile comes first and the end last, so that whoever goes on need not wait. Where a
// share lies within a tile, `only` are its stages from `from` on.
struct Share {
  int waves, tile, whole, from, into, only;

  __device__ __forceinline__ Share(const int waves, const int split, const int stages)
      : waves(waves) {
    const long long all = (long long)split * stages;
    const long long begin = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;
    const int first = (int)(begin / stages), last = (int)(end / stages);
    from = (int)(begin - (long long)first * stages);
    into = (int)(end - (long long)last * stages);
    only = first == last ? (int)(end - begin) : 0;
    tile = waves * (int)gridDim.x + first + (from > 0);
    whole = last - first - (from > 0);
  }

  __device__ __forceinline__ int pieces() const {
    return only ? waves + 1 : waves + (into > 0) + whole + (from > 0);
  }

  __device__ __forceinline__ Piece piece(int number, const int stages) const {
    if (only && number == 0) return {tile - (from > 0), from, from + only};
    if (!only && into > 0 && number == 0) return {tile + whole, 0, into};
    number -= into > 0 || only;
    if (number < waves) return {(int)(blockIdx.x + number * gridDim.x), 0, stages};
    number -= waves;
    if (number < whole) return {tile + number, 0, stages};
    return {tile - 1, from, stages};
  }
};

// Where a tile lies: tiles follow each other down columns of `width` tiles.
struct Place {
  int top, side;

  __device__ __forceinline__ Place(const int tile, const int down, const int across,
                                   const int width) {
    const int number = tile / (down * width), start = number * width;
    const int wide = min(width, across - start), rest = tile - number * down * width;
    top = rest / wide * ROWS, side = (start + rest % wide) * COLUMNS;
  }
};

// What a thread brings of a piece, the next stage of which is `next`.
struct Bringer {
  const float *left, *right;
  int from[BROUGHT], there, side, next, end, pitch, inner;
  bool whole;

  __device__ __forceinline__ void start(const float *all_left, const float *all_right,
                                        const Piece &piece, const Place &place, const int rows) {
    const int first = (int)threadIdx.x / DEPTH, at = (int)threadIdx.x % DEPTH;
    left = all_left + (long long)(place.top + first) * inner + piece.begin * DEPTH + at;
    right = all_right + (long long)piece.begin * DEPTH * pitch;
#pragma unroll
    for (int n = 0; n < BROUGHT; ++n) from[n] = n * ROW_STEP * inner;
    there = (rows - place.top - first + ROW_STEP - 1) / ROW_STEP;
    whole = place.top + ROWS <= rows && place.side + COLUMNS <= pitch;
    side = place.side, next = piece.begin, end = piece.end;
  }

  __device__ __forceinline__ void bring(float *room) {
    if (next < end) {
      const int left_over = inner - next * DEPTH;
      bring_stage(room, left, from, there, right, side, pitch, left_over, whole);
      left += DEPTH;
      right += (long long)DEPTH * pitch;
      ++next;
    }
    copy_async_commit();
  }

  __device__ __forceinline__ void bring_first(float *memory) {
#pragma unroll
    for (int n = 0; n < STAGES - 1; ++n) bring(memory + n * STAGE);
  }
};

// Where a thread is: its group, its warp in that, its lanes, its first row and column in a tile.
struct Lane {
  int slice, warp, down, across, row, column;

  __device__ __forceinline__ Lane() {
    const int lane = (int)threadIdx.x % 32;
    slice = (int)threadIdx.x / SLICE_THREADS, warp = (int)threadIdx.x % SLICE_THREADS / 32;
    down = lane % LANE_ROWS, across = lane / LANE_ROWS;
    row = warp % WARPS_DOWN * WARP_ROWS + down * 4;
    column = warp / WARPS_DOWN * WARP_COLUMNS + across * 4;
  }

  // Whether the thread's group writes a row of its sums, when those of all groups are added.
  __device__ __forceinline__ bool writes(const int i) const {
    return SLICES == 1 || i / (THREAD_ROWS / SLICES) == slice;
  }
};

// Add `length` stages to the sums; the first ones are on their way to the start of `memory`.
__device__ __forceinline__ void add_stages(float *memory, Bringer &bringer, const Lane &lane,
                                           const int length, Sums &sum) {
  __align__(16) float a[2][THREAD_ROWS];
  __align__(16) float b[2][THREAD_COLUMNS];
  const int start = lane.slice * SLICE_DEPTH;
  copy_async_wait<STAGES - 2>();
  __syncthreads();
  fragments(memory, start, lane.row, lane.column, a[0], b[0]);
  int now = 0, free = STAGES - 1;
  for (int stage = 0; stage < length; ++stage) {
    const int next = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
    for (int k = 0; k < SLICE_DEPTH; ++k) {
      if (k == SLICE_DEPTH - 1) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
      }
      const float *from = memory + (k == SLICE_DEPTH - 1 ? next : now) * STAGE;
      fragments(from, start + (k + 1) % SLICE_DEPTH, lane.row, lane.column, a[(k + 1) % 2],
                b[(k + 1) % 2]);
      if (k == 0) bringer.bring(memory + free * STAGE);
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
  __syncthreads();
}

#if SLICES > 1
// Add the sums of all groups, in their order; each group has its rows of the result.
__device__ __forceinline__ void add_slices(float *memory, const Lane &lane, Sums &sum) {
  float *mine = memory + (int)threadIdx.x % SLICE_THREADS * 4;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i)
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4)
      *(float4 *)(mine + lane.slice * ROWS * COLUMNS + (i * THREAD_COLUMNS + j) * SLICE_THREADS) =
          make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    if (!lane.writes(i)) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) {
      const float *from = mine + (i * THREAD_COLUMNS + j) * SLICE_THREADS;
      float4 all = *(const float4 *)from;
#pragma unroll
      for (int n = 1; n < SLICES; ++n) {
        const float4 one = *(const float4 *)(from + n * ROWS * COLUMNS);
        all.x += one.x, all.y += one.y, all.z += one.z, all.w += one.w;
      }
      sum[i][j] = all.x, sum[i][j + 1] = all.y, sum[i][j + 2] = all.z, sum[i][j + 3] = all.w;
    }
  }
  __syncthreads();
}
#endif

// Sums that a block leaves for others lie with those of neighbouring threads side by side.
#define LEFT_AT(i, j) (((i) * THREAD_COLUMNS + (j)) * SLICE_THREADS)

__device__ __forceinline__ void leave(float *sums, unsigned *flags, const Lane &lane,
                                      const Sums &sum) {
  float *into = sums + (long long)blockIdx.x * (ROWS * COLUMNS) +
                (int)threadIdx.x % SLICE_THREADS * 4;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    if (!lane.writes(i)) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4)
      __stcg((float4 *)(into + LEFT_AT(i, j)),
             make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) flag_set(flags + blockIdx.x);
}

// Take what a block has left, or add it to the rows of sums that the thread writes; the flag is
// zero again.
__device__ __forceinline__ void take_left(const float *sums, unsigned *flags, const int block,
                                         const Lane &lane, Sums &sum) {
  if (threadIdx.x == 0) {
    flag_wait(flags + block);
    flags[block] = 0;
  }
  __syncthreads();
  const float *from = sums + (long long)block * (ROWS * COLUMNS) +
                      (int)threadIdx.x % SLICE_THREADS * 4;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    if (!lane.writes(i)) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) {
      const float4 four = __ldcg((const float4 *)(from + LEFT_AT(i, j)));
#if CHAINED
      sum[i][j] = four.x, sum[i][j + 1] = four.y, sum[i][j + 2] = four.z, sum[i][j + 3] = four.w;
#else
      sum[i][j] += four.x, sum[i][j + 1] += four.y;
      sum[i][j + 2] += four.z, sum[i][j + 3] += four.w;
#endif
    }
  }
}

__device__ __forceinline__ void write(float *__restrict__ out, const Sums &sum, float *memory,
                                      const Place &place, const Lane &lane, const int rows,
                                      const int columns) {
#if VECTOR == 4
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    const int y = place.top + lane.row + i / 4 * 4 * LANE_ROWS + i % 4;
    if (y >= rows || !lane.writes(i)) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4) {
      const int x = place.side + lane.column + j * LANE_COLUMNS;
      if (x < columns)
        *(float4 *)(out + (long long)y * columns + x) =
            make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
    }
  }
#else
  // A warp turns a row of each of its lanes at a time, so that what it writes at once lies side by
  // side: four writes of every fourth element would be four times as many for the cache.
  float *turned = memory + (int)threadIdx.x / 32 * (LANE_ROWS * TURNED);
  const int x = place.side + lane.warp / WARPS_DOWN * WARP_COLUMNS + (int)threadIdx.x % 32;
  const int y = place.top + lane.warp % WARPS_DOWN * WARP_ROWS;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; ++i) {
    if (!lane.writes(i)) continue;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j += 4)
      *(float4 *)(turned + lane.down * TURNED + lane.across * 4 + j * LANE_COLUMNS) =
          make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
      const int down = y + r * 4 + i / 4 * 4 * LANE_ROWS + i % 4;
#pragma unroll
      for (int c = 0; c < WARP_COLUMNS; c += 32)
        if (down < rows && c + (int)threadIdx.x % 32 < WARP_COLUMNS && x + c < columns)
          out[(long long)down * columns + x + c] = turned[r * TURNED + c + (int)threadIdx.x % 32];
    }
    __syncwarp();
  }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    multiply(const float *__restrict__ left, const float *__restrict__ right,
             float *__restrict__ out, float *__restrict__ sums, unsigned *flags, int rows,
             int columns, int pitch, int inner, int down, int across, int width, int waves,
             int split) {
  extern __shared__ __align__(16) float memory[];
  const int stages = max(1, (inner + DEPTH - 1) / DEPTH);
  const Share share(waves, split, stages);
  const Lane lane;
  Piece piece = share.piece(0, stages);
  Place place(piece.tile, down, across, width);
  Bringer bringer;
  bringer.pitch = pitch, bringer.inner = inner;
  bringer.start(left, right, piece, place, rows);
  bringer.bring_first(memory);
  const int pieces = share.pieces();
  for (int number = 1; number <= pieces; ++number) {
    Sums sum;
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i)
#pragma unroll
      for (int j = 0; j < THREAD_COLUMNS; ++j) sum[i][j] = 0.0f;
#if CHAINED
    if (piece.begin > 0) take_left(sums, flags, (int)blockIdx.x - 1, lane, sum);
#endif
    add_stages(memory, bringer, lane, piece.end - piece.begin, sum);
#if SLICES > 1
    add_slices(memory, lane, sum);
#endif
    const Piece done = piece;
    const Place at = place;
    if (number < pieces) {
      piece = share.piece(number, stages);
      place = Place(piece.tile, down, across, width);
      bringer.start(left, right, piece, place, rows);
      bringer.bring_first(memory);
    }
    if (done.end < stages) {
      leave(sums, flags, lane, sum);
      continue;
    }
#if !CHAINED
    if (done.begin > 0) {
      const long long start = (long long)(done.tile - waves * (int)gridDim.x) * stages;
      int block = (int)blockIdx.x - 1;
      while ((long long)split * stages * block / gridDim.x > start) --block;
      for (; block < (int)blockIdx.x; ++block) take_left(sums, flags, block, lane, sum);
    }
#endif
    write(out, sum, memory + ROOM, at, lane, rows, columns);
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
