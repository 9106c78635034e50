// Contiguous systems of ROWS rows: LANES lanes a system, so 32 / LANES systems a warp.
//
// A warp copies its systems to shared memory, where each lane reads ROWS_A_LANE consecutive rows of
// its own into registers. It eliminates them until each depends on the last unknown of the lane
// before and on the unknown behind it; the lanes' last unknowns are found by cyclic reduction in
// shuffles. Rows beyond the end are those of a unit matrix. Warps do not wait for each other.
//
// Constants: REAL, ROWS, LANES, ROWS_A_LANE, PITCH (elements from one system to the next, on the
// chip), VECTOR (elements that a lane reads at once), COPIED (elements that are copied at once),
// PERIODIC, THREADS.
#include "elements.cu"
#include "cooperation.cu"
#include "lanes.cu"

#define SYSTEMS (32 / LANES)
#define ARRAY (SYSTEMS * PITCH)
#define SIDES (PERIODIC + 1)
// Whether the r-th row of some lane is beyond the end.
#define PARTIAL(r) ((LANES - 1) * R + (r) >= ROWS)

// Where an element of a warp's systems, counted as they lie in memory, is on the chip.
static __device__ __forceinline__ int place(int i) {
  const int system = i / ROWS, row = i - system * ROWS;
  return system * PITCH + row;
}

template <typename Word>
static __device__ __forceinline__ void bring(real* stage, const real* const (&from)[4], int lane,
                                             int count) {
  constexpr int W = sizeof(Word) / sizeof(real);
#pragma unroll
  for (int n = 0; n < (SYSTEMS * ROWS + 32 * W - 1) / (32 * W); ++n) {
    const int i = (n * 32 + lane) * W;
    if (i < count) {
      const int at = place(i);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        copy_async((Word*)(stage + k * ARRAY + at), (const Word*)(from[k] + i));
    }
  }
}

template <typename Word>
static __device__ __forceinline__ void put(real* to, const real* stage, int lane, int count) {
  constexpr int W = sizeof(Word) / sizeof(real);
#pragma unroll
  for (int n = 0; n < (SYSTEMS * ROWS + 32 * W - 1) / (32 * W); ++n) {
    const int i = (n * 32 + lane) * W;
    if (i < count) *(Word*)(to + i) = *(const Word*)(stage + place(i));
  }
}

// One equation a lane: x[l] + a x[l-1] + c x[l+1] = d; a is 0 at the first lane of a system, c at
// the last one, and that stays so where the distance grows.
struct Line {
  real a, c, d[SIDES];
};

static __device__ __forceinline__ void reduce(Line& x) {
#pragma unroll
  for (int k = 1; k < LANES; k <<= 1) {
    const real ua = __shfl_up_sync(EVERY, x.a, k, LANES), uc = __shfl_up_sync(EVERY, x.c, k, LANES);
    const real da = __shfl_down_sync(EVERY, x.a, k, LANES);
    const real dc = __shfl_down_sync(EVERY, x.c, k, LANES);
    const real w = real(1) / mad(-x.a, uc, mad(-x.c, da, real(1)));
#pragma unroll
    for (int s = 0; s < SIDES; ++s) {
      const real ud = __shfl_up_sync(EVERY, x.d[s], k, LANES);
      const real dd = __shfl_down_sync(EVERY, x.d[s], k, LANES);
      x.d[s] = mad(-x.a, ud, mad(-x.c, dd, x.d[s])) * w;
    }
    x.a = -x.a * ua * w;
    x.c = -x.c * dc * w;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) contiguous(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* __restrict__ X, unsigned char* __restrict__ status,
    const long long systems) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const long long first = ((long long)blockIdx.x * (THREADS / 32) + warp) * SYSTEMS;
  if (first >= systems) return;
  real* const stage = (real*)chip + warp * 4 * ARRAY;
  const int here = systems - first < SYSTEMS ? (int)(systems - first) : SYSTEMS;
  const long long at = first * ROWS;
  {
    const real* const from[4] = {A + at, B + at, C + at, D + at};
    if (here == SYSTEMS)
      bring<Copied>(stage, from, lane, SYSTEMS * ROWS);
    else
      bring<Single>(stage, from, lane, here * ROWS);
    copy_async_wait_all();
    __syncwarp();
  }
  const int system = lane / LANES, place_in = lane % LANES;
  real* const mine = stage + system * PITCH + place_in * R;
  real a[R], c[R], d[SIDES][R];
  real b[R];
  own(mine, a);
  own(mine + ARRAY, b);
  own(mine + 2 * ARRAY, c);
  own(mine + 3 * ARRAY, d[0]);
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (PARTIAL(r) && place_in * R + r >= ROWS) {
      a[r] = c[r] = d[0][r] = 0;
      b[r] = 1;
    }
  if (!PERIODIC && place_in == 0) a[0] = 0;
  if (!PERIODIC && place_in == (ROWS - 1) / R) c[(ROWS - 1) % R] = 0;

  int found = 0;
  real given = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (b[r] == 0) found |= 1;
    if (absolute(b[r]) < absolute(a[r]) + absolute(c[r])) found |= 2;
    given = mad(a[r], 0, mad(b[r], 0, mad(c[r], 0, mad(d[0][r], 0, given))));
  }
#if PERIODIC
  // Two right-hand sides: the given one, and the column of Sherman and Morrison.
  constexpr int owner = (ROWS - 1) / R, final = (ROWS - 1) % R;
  const real b0 = __shfl_sync(EVERY, b[0], 0, LANES), corner = __shfl_sync(EVERY, a[0], 0, LANES);
  const real gamma = b0 != 0 ? -b0 : real(1);
  const real share = corner / gamma;
#pragma unroll
  for (int r = 0; r < R; ++r) d[1][r] = 0;
  if (place_in == 0) {
    d[1][0] = gamma;
    b[0] = b[0] - gamma;
    a[0] = 0;
  }
  if (place_in == owner) {
    d[1][final] = c[final];
    b[final] = b[final] - c[final] * corner / gamma;
    c[final] = 0;
  }
#endif

  // x[r] + a x[before] + c x[r+1] = d, and the first unknown: p - q x[before] - s x[last].
  real p[SIDES] = {}, q = 0, s = -1;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const real low = a[r], w = real(1) / (r ? mad(-low, c[r ? r - 1 : 0], b[r]) : b[r]);
    a[r] = r ? -low * a[r ? r - 1 : 0] * w : low * w;
    c[r] = c[r] * w;
#pragma unroll
    for (int k = 0; k < SIDES; ++k)
      d[k][r] = (r ? mad(-low, d[k][r ? r - 1 : 0], d[k][r]) : d[k][r]) * w;
    if (r == 0) {
#pragma unroll
      for (int k = 0; k < SIDES; ++k) p[k] = R > 1 ? d[k][0] : real(0);
      q = R > 1 ? a[0] : real(0);
      s = R > 1 ? c[0] : real(-1);
    } else if (r < R - 1) {
#pragma unroll
      for (int k = 0; k < SIDES; ++k) p[k] = mad(-s, d[k][r], p[k]);
      q = mad(-s, a[r], q);
      s = -s * c[r];
    }
  }
  Line line;
  {
    // The first row of the next lane, put into the last one of this.
    const real nq = __shfl_down_sync(EVERY, q, 1, LANES), ns = __shfl_down_sync(EVERY, s, 1, LANES);
    const real high = place_in < LANES - 1 ? c[R - 1] : real(0);
    const real w = real(1) / mad(-high, nq, real(1));
    line.a = a[R - 1] * w;
    line.c = -high * ns * w;
#pragma unroll
    for (int k = 0; k < SIDES; ++k)
      line.d[k] = mad(-high, __shfl_down_sync(EVERY, p[k], 1, LANES), d[k][R - 1]) * w;
  }
  reduce(line);
#pragma unroll
  for (int k = 0; k < SIDES; ++k) {
    const real before = __shfl_up_sync(EVERY, line.d[k], 1, LANES);
    d[k][R - 1] = line.d[k];
#pragma unroll
    for (int r = R - 2; r >= 0; --r) d[k][r] = mad(-c[r], d[k][r + 1], mad(-a[r], before, d[k][r]));
  }
#if PERIODIC
  const real y1 = __shfl_sync(EVERY, d[0][final], owner, LANES);
  const real z1 = __shfl_sync(EVERY, d[1][final], owner, LANES);
  const real y0 = __shfl_sync(EVERY, d[0][0], 0, LANES), z0 = __shfl_sync(EVERY, d[1][0], 0, LANES);
  const real weight = mad(share, y1, y0) / (real(1) + mad(share, z1, z0));
#pragma unroll
  for (int r = 0; r < R; ++r) d[0][r] = mad(-weight, d[1][r], d[0][r]);
#endif
  real solved = 0;
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (!PARTIAL(r) || place_in * R + r < ROWS) solved = mad(d[0][r], 0, solved);
  // All lanes have read their rows: the solution takes the place of `lower`.
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; r += VECTOR) {
    Several<VECTOR> some;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) some.v[e] = d[0][r + e];
    if (PITCH >= LANES * R || !PARTIAL(r + VECTOR - 1) || place_in * R + r < ROWS)
      *(Several<VECTOR>*)(mine + r) = some;
  }
  __syncwarp();
  if (here == SYSTEMS)
    put<Copied>(X + at, stage, lane, SYSTEMS * ROWS);
  else
    put<Single>(X + at, stage, lane, here * ROWS);
  const unsigned group = (LANES == 32 ? EVERY : (1u << LANES % 32) - 1) << system * LANES;
  const bool zero = __ballot_sync(EVERY, found & 1) & group;
  const bool weak = __ballot_sync(EVERY, found & 2) & group;
  const bool bad = __ballot_sync(EVERY, !(given == 0)) & group;
  const bool unsolved = __ballot_sync(EVERY, !(solved == 0)) & group;
  if (place_in == 0 && system < here)
    status[first + system] = (unsigned char)(zero | weak << 1 | (bad ? 4 : unsolved ? 8 : 0));
}
