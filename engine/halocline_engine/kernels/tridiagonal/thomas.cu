// A thread a system; c and y stay on the chip between the sweeps, or in memory where they do not fit.
//
// Constants: REAL, ROWS, DEPTH (rows that are loaded ahead), THREADS, ON_CHIP, PERIODIC.
// The first row's `lower` and the last row's `upper` are not looked at unless PERIODIC.
// x may be used as room before it is written; `room` has ROWS * systems elements for c, and as many
// again for z where PERIODIC; it is not touched where ON_CHIP.
#include "elements.cu"
extern __shared__ __align__(16) unsigned char chip[];

struct Row {
  real a, b, c, d;
};

// What is wrong with a system: sums of what is zero unless something is not finite.
struct Faults {
  int found;
  real given, solved;
};

static __device__ __forceinline__ float absolute(float v) { return fabsf(v); }
static __device__ __forceinline__ double absolute(double v) { return fabs(v); }

static __device__ __forceinline__ Row load(const real* __restrict__ a, const real* __restrict__ b,
                                           const real* __restrict__ c, const real* __restrict__ d,
                                           long long at, int row) {
  Row r;
  r.a = PERIODIC || row > 0 ? a[at] : real(0);
  r.b = b[at];
  r.c = PERIODIC || row < ROWS - 1 ? c[at] : real(0);
  r.d = d[at];
  return r;
}

static __device__ __forceinline__ void look(Faults& f, const Row& r) {
  if (r.b == 0) f.found |= 1;
  if (absolute(r.b) < absolute(r.a) + absolute(r.c)) f.found |= 2;
  f.given += ((r.a - r.a) + (r.b - r.b)) + ((r.c - r.c) + (r.d - r.d));
}

struct Place {
  real *c, *y, *z;
  long long step;
};

struct State {
  real c, y, z;
  real gamma, share, corner;
};

// Eliminate one row. `row` is known at compile time at both ends, where it matters.
static __device__ __forceinline__ void eliminate(const Row& r, int row, State& s, Faults& f,
                                                 const Place& place) {
  look(f, r);
  real a = r.a, b = r.b, right = 0;
  if (row == 0) {
    a = 0;
    if (PERIODIC) {
      s.gamma = r.b != 0 ? -r.b : real(1);
      s.share = r.a / s.gamma;
      s.corner = r.a;
      b = r.b - s.gamma;
      right = s.gamma;
    }
  }
  if (PERIODIC && row == ROWS - 1) {
    b = r.b - r.c * s.corner / s.gamma;
    right = r.c;
  }
  const real w = real(1) / (b - a * s.c);
  s.c = r.c * w;
  s.y = (r.d - a * s.y) * w;
  place.c[row * place.step] = s.c;
  place.y[row * place.step] = s.y;
  if (PERIODIC) {
    s.z = (right - a * s.z) * w;
    place.z[row * place.step] = s.z;
  }
}

static __device__ __forceinline__ unsigned char verdict(const Faults& f) {
  if (f.given != 0 || f.given != f.given) return (unsigned char)(f.found | 4);
  if (f.solved != 0 || f.solved != f.solved) return (unsigned char)(f.found | 8);
  return (unsigned char)f.found;
}

// Substitute from the last row to the first, and write.
static __device__ __forceinline__ void substitute(real* x, long long step, State& s,
                                                  Faults& f, const Place& place) {
#if PERIODIC
  for (int row = ROWS - 2; row >= 0; --row) {
    s.y = place.y[row * place.step] - place.c[row * place.step] * s.y;
    s.z = place.z[row * place.step] - place.c[row * place.step] * s.z;
    place.y[row * place.step] = s.y;
    place.z[row * place.step] = s.z;
  }
  const long long last = (ROWS - 1) * place.step;
  const real weight =
      (s.y + s.share * place.y[last]) / (real(1) + (s.z + s.share * place.z[last]));
  for (int row = 0; row < ROWS; ++row) {
    const real v = place.y[row * place.step] - weight * place.z[row * place.step];
    f.solved += v - v;
    x[row * step] = v;
  }
#else
  real v = s.y;
  f.solved += v - v;
  x[(ROWS - 1) * step] = v;
#pragma unroll 8
  for (int row = ROWS - 2; row >= 0; --row) {
    v = place.y[row * place.step] - place.c[row * place.step] * v;
    f.solved += v - v;
    x[row * step] = v;
  }
#endif
}

#define WHOLE (ROWS / DEPTH)
#define REST (ROWS % DEPTH)

extern "C" __global__ void __launch_bounds__(THREADS) thomas(
    const real* __restrict__ a, const real* __restrict__ b, const real* __restrict__ c,
    const real* __restrict__ d, real* x, real* room, unsigned char* __restrict__ status,
    const long long systems, const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, ROWS, inner), step = inner;
#if ON_CHIP
  real* own = (real*)chip + threadIdx.x;
  const Place place = {own, own + ROWS * THREADS, own + 2 * ROWS * THREADS, THREADS};
#else
  const Place place = {room + first, x + first, room + ROWS * systems + first, step};
#endif
  Faults f = {0, 0, 0};
  State s = {0, 0, 0, 1, 0, 0};
  Row ahead[DEPTH];
#pragma unroll
  for (int q = 0; q < DEPTH; ++q)
    if (q < ROWS) ahead[q] = load(a, b, c, d, first + q * step, q);
  for (int group = 0; group < WHOLE - 1; ++group) {
    const int row = group * DEPTH;
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const Row now = ahead[q];
      const int next = row + DEPTH + q;
      ahead[q] = load(a, b, c, d, first + next * step, next);
      eliminate(now, row + q, s, f, place);
    }
  }
#if WHOLE > 0
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const Row now = ahead[q];
    const int next = WHOLE * DEPTH + q;
    if (q < REST) ahead[q] = load(a, b, c, d, first + next * step, next);
    eliminate(now, (WHOLE - 1) * DEPTH + q, s, f, place);
  }
#endif
#pragma unroll
  for (int q = 0; q < REST; ++q) eliminate(ahead[q], WHOLE * DEPTH + q, s, f, place);
  substitute(x + first, step, s, f, place);
  status[system] = verdict(f);
}
