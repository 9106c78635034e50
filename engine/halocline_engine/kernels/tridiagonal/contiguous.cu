// A warp a system whose rows lie side by side, of at most 32 * R rows.
//
// A lane owns R consecutive rows, which it eliminates in registers until each depends on the last
// unknown of the lane before and on its own last one; the 32 last unknowns are found by cyclic
// reduction in shuffles. Rows beyond the end are those of a unit matrix.
//
// Constants: REAL, R, WARPS (of a block), PERIODIC, MODE: 0 solves systems of `rows` rows; 1 and 2
// are about tiles of TILE = 32 * R rows of longer systems. 1 writes what each tile's first and last
// unknowns are in terms of their neighbours; 2 solves the tiles, when the last unknown of every tile
// is known.
typedef REAL real;
extern __shared__ __align__(16) unsigned char chip[];

#define TILE (32 * R)
// A lane's rows begin R + PAD elements after those of the lane before: an odd number.
#define PAD (1 - R % 2)
#define PITCH (R + PAD)
#define SIDES (PERIODIC + 1)
#define EVERY 0xffffffffu

static __device__ __forceinline__ real absolute(real v) { return v < 0 ? -v : v; }


// From memory, where lanes take neighbouring rows, to rows of their own.
static __device__ __forceinline__ void deal(real* stage, const real (&from)[R], real (&own)[R],
                                            int lane) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = r * 32 + lane;
    stage[i + PAD * (i / R)] = from[r];
  }
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; ++r) own[r] = stage[lane * PITCH + r];
  __syncwarp();
}

static __device__ __forceinline__ void fetch(const real* __restrict__ from, real (&into)[R],
                                             int lane, int rows, real beyond) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = r * 32 + lane;
    into[r] = i < rows ? __ldcs(from + i) : beyond;
  }
}

// One equation a lane: x[l] + a x[l-1] + c x[l+1] = d, for the lanes before `past`.
struct Line {
  real a, c, d[SIDES];
};

// Cyclic reduction; what couples beyond lane 0 or lane past-1 goes on doing so.
static __device__ __forceinline__ void reduce(Line& x, int lane, int past) {
#pragma unroll
  for (int k = 1; k < 32; k <<= 1) {
    const bool low = lane >= k, high = lane + k < past;
    real ua = __shfl_up_sync(EVERY, x.a, k), uc = __shfl_up_sync(EVERY, x.c, k);
    real da = __shfl_down_sync(EVERY, x.a, k), dc = __shfl_down_sync(EVERY, x.c, k);
    const real left = low ? x.a : real(0), right = high ? x.c : real(0);
    const real w = real(1) / (real(1) - left * (low ? uc : real(0)) - right * (high ? da : real(0)));
#pragma unroll
    for (int s = 0; s < SIDES; ++s) {
      const real ud = __shfl_up_sync(EVERY, x.d[s], k), dd = __shfl_down_sync(EVERY, x.d[s], k);
      x.d[s] = (x.d[s] - left * (low ? ud : real(0)) - right * (high ? dd : real(0))) * w;
    }
    x.a = low ? -x.a * ua * w : x.a * w;
    x.c = high ? -x.c * dc * w : x.c * w;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) contiguous(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* __restrict__ X, unsigned char* __restrict__ status,
    const real* __restrict__ known, real* __restrict__ ends, const long long systems,
    const int rows, const int tiles) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const long long job = (long long)blockIdx.x * WARPS + warp;
  if (job >= systems * tiles) return;
  real* stage = (real*)chip + warp * 32 * PITCH;
  const long long system = job / tiles;
  const int tile = (int)(job - system * tiles);
  const int begin = tile * TILE;
  const int here = rows - begin < TILE ? rows - begin : TILE;
  const long long at = system * rows + begin;

  real a[R], b[R], c[R], d[SIDES][R];
  {
    real ga[R], gb[R], gc[R], gd[R];
    fetch(A + at, ga, lane, here, 0);
    fetch(B + at, gb, lane, here, 1);
    fetch(C + at, gc, lane, here, 0);
    fetch(D + at, gd, lane, here, 0);
    deal(stage, ga, a, lane);
    deal(stage, gb, b, lane);
    deal(stage, gc, c, lane);
    deal(stage, gd, d[0], lane);
  }
  if (!PERIODIC && begin == 0 && lane == 0) a[0] = 0;
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (!PERIODIC && begin + lane * R + r == rows - 1) c[r] = 0;

#if MODE != 1
  int found = 0;
  real given = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (b[r] == 0) found |= 1;
    if (absolute(b[r]) < absolute(a[r]) + absolute(c[r])) found |= 2;
    given += ((a[r] - a[r]) + (b[r] - b[r])) + ((c[r] - c[r]) + (d[0][r] - d[0][r]));
  }
#endif

#if PERIODIC
  // Two right-hand sides: the given one, and the column of Sherman and Morrison.
  const int owner = (rows - 1) / R;
  const real b0 = __shfl_sync(EVERY, b[0], 0), corner = __shfl_sync(EVERY, a[0], 0);
  const real gamma = b0 != 0 ? -b0 : real(1);
  const real share = corner / gamma;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = lane * R + r;
    d[1][r] = 0;
    if (i == 0) {
      d[1][r] = gamma;
      b[r] = b[r] - gamma;
      a[r] = 0;
    }
    if (i == rows - 1) {
      d[1][r] = c[r];
      b[r] = b[r] - c[r] * corner / gamma;
      c[r] = 0;
    }
  }
#endif
#if MODE == 2
  const real before = tile > 0 ? known[system * tiles + tile - 1] : real(0);
  const real last = known[system * tiles + tile];
  if (lane == 0) {
    d[0][0] = d[0][0] - a[0] * before;
    a[0] = 0;
  }
  if (lane == 31) {
    a[R - 1] = 0;
    b[R - 1] = 1;
    c[R - 1] = 0;
    d[0][R - 1] = last;
  }
#endif

  {
    const real w = real(1) / b[0];
    a[0] *= w;
    c[0] *= w;
#pragma unroll
    for (int s = 0; s < SIDES; ++s) d[s][0] *= w;
  }
#pragma unroll
  for (int r = 1; r < R; ++r) {
    const real low = a[r], w = real(1) / (b[r] - low * c[r - 1]);
    a[r] = -low * a[r - 1] * w;
    c[r] = c[r] * w;
#pragma unroll
    for (int s = 0; s < SIDES; ++s) d[s][r] = (d[s][r] - low * d[s][r - 1]) * w;
  }
#pragma unroll
  for (int r = R - 3; r >= 0; --r) {
    const real high = c[r];
    a[r] = a[r] - high * a[r + 1];
    c[r] = -high * c[r + 1];
#pragma unroll
    for (int s = 0; s < SIDES; ++s) d[s][r] = d[s][r] - high * d[s][r + 1];
  }

  const int past = MODE == 1 ? 31 : 32;
  Line line;
  {
    // The first row of the next lane, put into the last one of this.
    real na = __shfl_down_sync(EVERY, a[0], 1), nc = __shfl_down_sync(EVERY, c[0], 1);
    const bool next = lane < 31;
    const real high = c[R - 1];
    const bool direct = R == 1 || !next;
    if (direct) na = 0;
    const real w = real(1) / (real(1) - high * na);
    line.a = a[R - 1] * w;
    line.c = direct ? high * w : -high * nc * w;
#pragma unroll
    for (int s = 0; s < SIDES; ++s) {
      real nd = __shfl_down_sync(EVERY, d[s][0], 1);
      if (direct) nd = 0;
      line.d[s] = (d[s][R - 1] - high * nd) * w;
    }
  }
  const Line whole = line;
  reduce(line, lane, past);

#if MODE == 1
  // Lane 31 holds the tile's last row; lane 30's unknown is put into it.
  const real ra = __shfl_up_sync(EVERY, line.a, 1), rc = __shfl_up_sync(EVERY, line.c, 1);
  const real rd = __shfl_up_sync(EVERY, line.d[0], 1);
  real* end = ends + job * 6;
  if (lane == 31) {
    const real w = real(1) / (real(1) - whole.a * rc);
    end[3] = -whole.a * ra * w;
    end[4] = whole.c * w;
    end[5] = (whole.d[0] - whole.a * rd) * w;
  }
  if (lane == 0) {
    end[0] = a[0] - c[0] * line.a;
    end[1] = -c[0] * line.c;
    end[2] = d[0][0] - c[0] * line.d[0];
  }
#else
  (void)whole;
  real solved = 0;
#pragma unroll
  for (int s = 0; s < SIDES; ++s) {
    const real xl = line.d[s];
    real xp = __shfl_up_sync(EVERY, xl, 1);
    if (lane == 0) xp = 0;
#pragma unroll
    for (int r = 0; r < R - 1; ++r) d[s][r] = d[s][r] - a[r] * xp - c[r] * xl;
    d[s][R - 1] = xl;
  }
#if PERIODIC
  real y1 = 0, z1 = 0;
#pragma unroll
  for (int r = 0; r < R; ++r)
    if (lane * R + r == rows - 1) {
      y1 = d[0][r];
      z1 = d[1][r];
    }
  y1 = __shfl_sync(EVERY, y1, owner);
  z1 = __shfl_sync(EVERY, z1, owner);
  const real y0 = __shfl_sync(EVERY, d[0][0], 0), z0 = __shfl_sync(EVERY, d[1][0], 0);
  const real weight = (y0 + share * y1) / (real(1) + (z0 + share * z1));
#pragma unroll
  for (int r = 0; r < R; ++r) d[0][r] = d[0][r] - weight * d[1][r];
#endif
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (begin + lane * R + r < rows) solved += d[0][r] - d[0][r];
    stage[lane * PITCH + r] = d[0][r];
  }
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = r * 32 + lane;
    if (i < here) __stcs(X + at + i, stage[i + PAD * (i / R)]);
  }
  int flags = __any_sync(EVERY, found & 1) ? 1 : 0;
  flags |= __any_sync(EVERY, found & 2) ? 2 : 0;
  const int bad = __any_sync(EVERY, given != 0 || given != given);
  const int unsolved = __any_sync(EVERY, solved != 0 || solved != solved);
  if (lane == 0) status[job] = (unsigned char)(flags | (bad ? 4 : unsolved ? 8 : 0));
#endif
}

// The equations of the tiles' last unknowns, as bands of systems of `tiles` rows.
extern "C" __global__ void __launch_bounds__(THREADS) join(
    const real* __restrict__ ends, real* __restrict__ a, real* __restrict__ b,
    real* __restrict__ c, real* __restrict__ d, const long long systems, const int tiles) {
  const long long job = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (job >= systems * tiles) return;
  const real* own = ends + job * 6;
  const bool next = job % tiles < tiles - 1;
  const real na = next ? own[6] : real(0), nc = next ? own[7] : real(0);
  const real nd = next ? own[8] : real(0);
  a[job] = own[3];
  b[job] = real(1) - own[4] * na;
  c[job] = -own[4] * nc;
  d[job] = own[5] - own[4] * nd;
}

// What is wrong with whole systems, from what is wrong with their tiles.
extern "C" __global__ void __launch_bounds__(THREADS) gather_status(
    const unsigned char* __restrict__ parts, unsigned char* __restrict__ status,
    const long long systems, const int tiles) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  unsigned char found = 0;
  for (int tile = 0; tile < tiles; ++tile) found |= parts[system * tiles + tile];
  status[system] = found & 4 ? (unsigned char)(found & ~8) : found;
}
