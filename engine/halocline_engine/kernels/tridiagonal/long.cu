// Contiguous systems of many rows, by tiles of them: a warp a tile, a lane ROWS_A_LANE rows of it.
//
// `windows` needs one pass. What couples a window of 32 * ROWS_A_LANE rows to the rest of its system
// fades away from its ends, so the rows that are GUARD rows away from them are solved as if there
// were no rest. A warp knows how strongly its rows are coupled to what it left out, and says FAR where
// that is more than SLIGHT, or where a row is not dominant: then errors may grow within a lane, and
// without that they are at most SLIGHT of the unknowns behind the ends. Such a system is solved again, by the partition method of Wang: `ends`
// writes what the first and the last unknown of each tile are in terms of their neighbours, `bridge`
// finds the last unknown of every tile, `fill` solves the tiles between them.
//
// Constants: REAL, ROWS_A_LANE, GUARD, VECTOR (elements that a lane reads at once), COPIED (elements
// that are copied at once), THREADS, JUDGES (threads of a block that looks at a whole system), SLIGHT.
#include "elements.cu"
#include "cooperation.cu"
#include "lanes.cu"

#define TILE (32 * R)
#define FAR 16

struct Bands {
  const real *a, *b, *c, *d;
};

// The rows of a lane: x[r] + a x[before] + c x[r+1] = d after `eliminate`, and the first unknown:
// p - q x[before] - s x[last].
struct Lane {
  real a[R], b[R], c[R], d[R], p, q, s, given;
  int found;
};

// Copy rows `low` to `past` of a window, counted from its first one, that begins at `at`.
static __device__ __forceinline__ void bring(real* stage, const Bands& bands, long long at, int low,
                                             int past, int lane) {
#pragma unroll
  for (int n = 0; n < (TILE + 32 * COPIED - 1) / (32 * COPIED); ++n) {
    const int i = (n * 32 + lane) * COPIED;
    const long long from = at + i;
    if (i >= low && i + COPIED <= past) {
      copy_async((Copied*)(stage + i), (const Copied*)(bands.a + from));
      copy_async((Copied*)(stage + TILE + i), (const Copied*)(bands.b + from));
      copy_async((Copied*)(stage + 2 * TILE + i), (const Copied*)(bands.c + from));
      copy_async((Copied*)(stage + 3 * TILE + i), (const Copied*)(bands.d + from));
    } else if (COPIED > 1) {
      for (int e = 0; e < COPIED; ++e)
        if (i + e >= low && i + e < past) {
          copy_async((Single*)(stage + i + e), (const Single*)(bands.a + from + e));
          copy_async((Single*)(stage + TILE + i + e), (const Single*)(bands.b + from + e));
          copy_async((Single*)(stage + 2 * TILE + i + e), (const Single*)(bands.c + from + e));
          copy_async((Single*)(stage + 3 * TILE + i + e), (const Single*)(bands.d + from + e));
        }
    }
  }
  copy_async_wait_all();
  __syncwarp();
}

// Read the rows of a lane, the first of which is `row` of a system of `rows`.
static __device__ __forceinline__ void read(Lane& x, const real* stage, int lane, int row,
                                            int rows) {
  own(stage + lane * R, x.a);
  own(stage + TILE + lane * R, x.b);
  own(stage + 2 * TILE + lane * R, x.c);
  own(stage + 3 * TILE + lane * R, x.d);
  x.found = 0;
  x.given = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (row + r < 0 || row + r >= rows) {
      x.a[r] = x.c[r] = x.d[r] = 0;
      x.b[r] = 1;
    }
    if (row + r == 0) x.a[r] = 0;
    if (row + r == rows - 1) x.c[r] = 0;
    if (x.b[r] == 0) x.found |= 1;
    if (absolute(x.b[r]) < absolute(x.a[r]) + absolute(x.c[r])) x.found |= 2;
    x.given = mad(x.a[r], 0, mad(x.b[r], 0, mad(x.c[r], 0, mad(x.d[r], 0, x.given))));
  }
}

static __device__ __forceinline__ void eliminate(Lane& x) {
  {
    const real w = real(1) / x.b[0];
    x.a[0] *= w;
    x.c[0] *= w;
    x.d[0] *= w;
    x.p = x.d[0];
    x.q = x.a[0];
    x.s = x.c[0];
  }
#pragma unroll
  for (int r = 1; r < R; ++r) {
    const real low = x.a[r], w = real(1) / mad(-low, x.c[r - 1], x.b[r]);
    x.a[r] = -low * x.a[r - 1] * w;
    x.c[r] = x.c[r] * w;
    x.d[r] = mad(-low, x.d[r - 1], x.d[r]) * w;
    if (r < R - 1) {
      x.p = mad(-x.s, x.d[r], x.p);
      x.q = mad(-x.s, x.a[r], x.q);
      x.s = -x.s * x.c[r];
    }
  }
}

// One equation a lane: x[l] + a x[l-1] + c x[l+1] = d.
struct Line {
  real a, c, d;
};

// The last row of each lane with the first one of the next put into it; the last lane keeps its own.
static __device__ __forceinline__ Line last_rows(const Lane& x, int lane) {
  real np = __shfl_down_sync(EVERY, x.p, 1), nq = __shfl_down_sync(EVERY, x.q, 1);
  real ns = __shfl_down_sync(EVERY, x.s, 1);
  if (lane == 31) {
    np = nq = 0;
    ns = -1;
  }
  const real high = x.c[R - 1], w = real(1) / mad(-high, nq, real(1));
  return {x.a[R - 1] * w, -high * ns * w, mad(-high, np, x.d[R - 1]) * w};
}

// Cyclic reduction of the lanes before `past`; what couples beyond them goes on doing so.
static __device__ __forceinline__ void reduce(Line& x, int lane, int past) {
#pragma unroll
  for (int k = 1; k < 32; k <<= 1) {
    const bool low = lane >= k, high = lane + k < past;
    const real ua = __shfl_up_sync(EVERY, x.a, k), uc = __shfl_up_sync(EVERY, x.c, k);
    const real ud = __shfl_up_sync(EVERY, x.d, k);
    const real da = __shfl_down_sync(EVERY, x.a, k), dc = __shfl_down_sync(EVERY, x.c, k);
    const real dd = __shfl_down_sync(EVERY, x.d, k);
    const real left = low ? x.a : real(0), right = high ? x.c : real(0);
    const real w =
        real(1) / (real(1) - left * (low ? uc : real(0)) - right * (high ? da : real(0)));
    x.d = (x.d - left * (low ? ud : real(0)) - right * (high ? dd : real(0))) * w;
    x.a = low ? -x.a * ua * w : x.a * w;
    x.c = high ? -x.c * dc * w : x.c * w;
  }
}

// Substitute within the lanes and write rows `low` to `past` of the window; whether all is finite.
static __device__ __forceinline__ bool write(Lane& x, real last, real before, real* stage,
                                             real* __restrict__ to, int low, int past, int lane) {
  real solved = 0;
  x.d[R - 1] = last;
#pragma unroll
  for (int r = R - 2; r >= 0; --r)
    x.d[r] = mad(-x.c[r], x.d[r + 1], mad(-x.a[r], before, x.d[r]));
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (lane * R + r >= low && lane * R + r < past) solved = mad(x.d[r], 0, solved);
  // All lanes have read their rows: the solution takes the place of `lower`.
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; r += VECTOR) {
    Several<VECTOR> some;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) some.v[e] = x.d[r + e];
    *(Several<VECTOR>*)(stage + lane * R + r) = some;
  }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < (TILE + 32 * COPIED - 1) / (32 * COPIED); ++n) {
    const int i = (n * 32 + lane) * COPIED;
    if (i >= low && i + COPIED <= past)
      *(Copied*)(to + i) = *(const Copied*)(stage + i);
    else if (COPIED > 1)
      for (int e = 0; e < COPIED; ++e)
        if (i + e >= low && i + e < past) to[i + e] = stage[i + e];
  }
  return __all_sync(EVERY, solved == 0);
}

extern "C" __global__ void __launch_bounds__(THREADS) windows(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* __restrict__ X, unsigned char* __restrict__ parts,
    const long long systems, const int rows, const int tiles) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const long long job = (long long)blockIdx.x * (THREADS / 32) + warp;
  if (job >= systems * tiles) return;
  real* const stage = (real*)chip + warp * 4 * TILE;
  const long long system = job / tiles;
  constexpr int kept = TILE - 2 * GUARD;
  const int begin = (int)(job - system * tiles) * kept - GUARD;
  const long long at = system * rows + begin;
  const Bands bands = {A, B, C, D};
  const int low = begin < 0 ? -begin : 0, past = rows - begin < TILE ? rows - begin : TILE;
  bring(stage, bands, at, low, past, lane);
  Lane x;
  read(x, stage, lane, begin + lane * R, rows);
  eliminate(x);
  Line line = last_rows(x, lane);
  reduce(line, lane, 32);
  // The last unknowns of these lanes are no farther from the ends than all that is kept.
  const bool inside = lane >= GUARD / R - 1 && lane <= (TILE - GUARD - 1) / R;
  const bool slight = absolute(line.a) <= real(SLIGHT) && absolute(line.c) <= real(SLIGHT);
  const bool far = __any_sync(EVERY, (inside && !slight) || (x.found & 2));
  const real before = __shfl_up_sync(EVERY, line.d, 1);
  const int until = GUARD + kept < past ? GUARD + kept : past;
  const bool solved = write(x, line.d, before, stage, X + at, GUARD, until, lane);
  int flags = __any_sync(EVERY, x.found & 1) ? 1 : 0;
  flags |= __any_sync(EVERY, x.found & 2) ? 2 : 0;
  if (__any_sync(EVERY, !(x.given == 0))) flags |= 4;
  if (lane == 0) parts[job] = (unsigned char)(flags | (solved ? 0 : 8) | (far ? FAR : 0));
}

// What is wrong with whole systems; a block a system. `again` says which are to be solved again.
extern "C" __global__ void __launch_bounds__(JUDGES) judge(
    const unsigned char* __restrict__ parts, unsigned char* __restrict__ status,
    int* __restrict__ again, const int tiles) {
  const long long first = (long long)blockIdx.x * tiles;
  int found = 0;
#pragma unroll 16
  for (int tile = threadIdx.x; tile < tiles; tile += JUDGES) found |= parts[first + tile];
  int all = 0;
#pragma unroll
  for (int bit = 1; bit <= FAR; bit <<= 1) all |= __syncthreads_or(found & bit) ? bit : 0;
  if (threadIdx.x) return;
  const int far = all & FAR;
  again[blockIdx.x] = far;
  all &= far || all & 4 ? 7 : 15;
  status[blockIdx.x] = (unsigned char)all;
}

extern "C" __global__ void __launch_bounds__(THREADS) ends(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, const int* __restrict__ again, real* __restrict__ ends,
    const long long systems, const int rows, const int tiles) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  real* const stage = (real*)chip + warp * 4 * TILE;
  const Bands bands = {A, B, C, D};
  const long long jobs = systems * tiles, warps = (long long)gridDim.x * (THREADS / 32);
  for (long long job = (long long)blockIdx.x * (THREADS / 32) + warp; job < jobs; job += warps) {
    const long long system = job / tiles;
    if (!again[system]) continue;
    const int begin = (int)(job - system * tiles) * TILE;
    const int past = rows - begin < TILE ? rows - begin : TILE;
    bring(stage, bands, system * rows + begin, 0, past, lane);
    Lane x;
    read(x, stage, lane, begin + lane * R, rows);
    __syncwarp();
    eliminate(x);
    Line line = last_rows(x, lane);
    const Line whole = line;
    reduce(line, lane, 31);
    // Lane 31 holds the tile's last row; lane 30's unknown is put into it.
    const real ra = __shfl_up_sync(EVERY, line.a, 1), rc = __shfl_up_sync(EVERY, line.c, 1);
    const real rd = __shfl_up_sync(EVERY, line.d, 1);
    real* const end = ends + job * 6;
    if (lane == 31) {
      const real w = real(1) / (real(1) - whole.a * rc);
      end[3] = -whole.a * ra * w;
      end[4] = whole.c * w;
      end[5] = (whole.d - whole.a * rd) * w;
    }
    if (lane == 0) {
      end[0] = x.q - x.s * line.a;
      end[1] = -x.s * line.c;
      end[2] = x.p - x.s * line.d;
    }
  }
}

// The last unknown of every tile, into `known`; a block a system, a thread some tiles.
extern "C" __global__ void __launch_bounds__(JUDGES) bridge(
    const int* __restrict__ again, const real* __restrict__ ends, real* __restrict__ rows_of,
    real* __restrict__ known, const int tiles) {
  if (!again[blockIdx.x]) return;
  real* const table = (real*)chip;
  const int each = (tiles + JUDGES - 1) / JUDGES, first = threadIdx.x * each;
  const int past = first + each < tiles ? first + each : tiles;
  const real* const from = ends + (long long)blockIdx.x * tiles * 6;
  real* const row = rows_of + (long long)blockIdx.x * tiles * 3;
  real* const x = known + (long long)blockIdx.x * tiles;
  real p = 0, q = 0, s = -1;
  Line last = {0, 0, 0};
  for (int tile = first; tile < past; ++tile) {
    const real* const now = from + tile * 6;
    const bool next = tile < tiles - 1;
    const real na = next ? now[6] : real(0), nc = next ? now[7] : real(0);
    const real nd = next ? now[8] : real(0);
    const real a = now[3], b = real(1) - now[4] * na, c = -now[4] * nc, d = now[5] - now[4] * nd;
    const bool begins = tile == first;
    const real w = real(1) / (begins ? b : b - a * last.c);
    last = {begins ? a * w : -a * last.a * w, c * w, (begins ? d : d - a * last.d) * w};
    row[tile * 3] = last.a;
    row[tile * 3 + 1] = last.c;
    row[tile * 3 + 2] = last.d;
    if (tile == past - 1) continue;
    p = begins ? last.d : p - s * last.d;
    q = begins ? last.a : q - s * last.a;
    s = begins ? last.c : -s * last.c;
  }
  // The first unknowns of the next thread's tiles, put into the last ones of this.
  real* const mine = table + threadIdx.x * 3;
  mine[0] = p;
  mine[1] = q;
  mine[2] = s;
  __syncthreads();
  {
    const bool next = past < tiles && first < past;
    const real np = next ? mine[3] : real(0), nq = next ? mine[4] : real(0);
    const real ns = next ? mine[5] : real(0);
    const real w = real(1) / (real(1) - last.c * nq);
    last = {last.a * w, -last.c * ns * w, (last.d - last.c * np) * w};
  }
  for (int k = 1; k < JUDGES; k <<= 1) {
    __syncthreads();
    mine[0] = last.a;
    mine[1] = last.c;
    mine[2] = last.d;
    __syncthreads();
    const bool low = (int)threadIdx.x >= k, high = (int)threadIdx.x + k < JUDGES;
    const real ua = low ? mine[-3 * k] : real(0), uc = low ? mine[1 - 3 * k] : real(0);
    const real ud = low ? mine[2 - 3 * k] : real(0);
    const real da = high ? mine[3 * k] : real(0), dc = high ? mine[1 + 3 * k] : real(0);
    const real dd = high ? mine[2 + 3 * k] : real(0);
    const real w = real(1) / (real(1) - last.a * uc - last.c * da);
    last = {-last.a * ua * w, -last.c * dc * w, (last.d - last.a * ud - last.c * dd) * w};
  }
  __syncthreads();
  mine[2] = last.d;
  __syncthreads();
  const real before = threadIdx.x ? mine[-1] : real(0);
  real after = last.d;
  for (int tile = past - 1; tile >= first; --tile) {
    if (tile < past - 1)
      after = row[tile * 3 + 2] - row[tile * 3] * before - row[tile * 3 + 1] * after;
    x[tile] = after;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) fill(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* __restrict__ X, const int* __restrict__ again,
    const real* __restrict__ known, unsigned char* status, const long long systems, const int rows,
    const int tiles) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  real* const stage = (real*)chip + warp * 4 * TILE;
  const Bands bands = {A, B, C, D};
  const long long jobs = systems * tiles, warps = (long long)gridDim.x * (THREADS / 32);
  for (long long job = (long long)blockIdx.x * (THREADS / 32) + warp; job < jobs; job += warps) {
    const long long system = job / tiles;
    if (!again[system]) continue;
    const int tile = (int)(job - system * tiles), begin = tile * TILE;
    const int past = rows - begin < TILE ? rows - begin : TILE;
    const long long at = system * rows + begin;
    bring(stage, bands, at, 0, past, lane);
    Lane x;
    read(x, stage, lane, begin + lane * R, rows);
    const real before = tile > 0 ? known[job - 1] : real(0);
    if (lane == 0) {
      x.d[0] = mad(-x.a[0], before, x.d[0]);
      x.a[0] = 0;
    }
    if (lane == 31) {
      x.a[R - 1] = x.c[R - 1] = 0;
      x.b[R - 1] = 1;
      x.d[R - 1] = known[job];
    }
    eliminate(x);
    Line line = last_rows(x, lane);
    reduce(line, lane, 32);
    real left = __shfl_up_sync(EVERY, line.d, 1);
    if (lane == 0) left = 0;
    const bool solved = write(x, line.d, left, stage, X + at, 0, past, lane);
    // Every tile that says so writes the same.
    if (lane == 0 && !solved && !(status[system] & 4)) status[system] |= 8;
    __syncwarp();
  }
}
