// Elimination with partial pivoting, a thread a system; see `pivoting.py`.
//
// Constants: REAL, ROWS, THREADS, ON_CHIP (of `pivoted`: what is eliminated stays on the chip).
// `room` has 2 * ROWS * systems elements for `pivoted`, unless ON_CHIP, and 4 * ROWS * systems for
// `pivoted_band`; x is used as room as well.
#include "elements.cu"
extern __shared__ __align__(16) unsigned char chip[];

static __device__ __forceinline__ real absolute(real v) { return v < 0 ? -v : v; }

static __device__ __forceinline__ unsigned char verdict(real given, real solved) {
  if (given != 0 || given != given) return 4;
  return solved != 0 || solved != solved ? 8 : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) pivoted(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* x, real* room, unsigned char* __restrict__ status,
    const long long systems, const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, ROWS, inner), step = inner;
#if ON_CHIP
  real* near = (real*)chip + threadIdx.x;
  real* far = near + ROWS * THREADS;
  real* held = far + ROWS * THREADS;
  const long long pace = THREADS;
#else
  real* near = room + first;
  real* far = room + ROWS * systems + first;
  real* held = x + first;
  const long long pace = step;
#endif
  real p = B[first], q = ROWS > 1 ? C[first] : real(0), y = D[first];
  real given = (p - p) + (q - q) + (y - y);
#pragma unroll 8
  for (int row = 0; row < ROWS - 1; ++row) {
    const long long at = first + (row + 1) * step;
    const real a = A[at], b = B[at], d = D[at];
    const real c = row + 2 < ROWS ? C[at] : real(0);
    given += ((a - a) + (b - b)) + ((c - c) + (d - d));
    const bool swap = absolute(a) > absolute(p);
    const real w = real(1) / (swap ? a : p);
    const real m = (swap ? p : a) * w;
    const real one = swap ? b : q, two = swap ? c : real(0), value = swap ? d : y;
    near[row * pace] = one * w;
    far[row * pace] = two * w;
    held[row * pace] = value * w;
    p = (swap ? q : b) - m * one;
    q = (swap ? real(0) : c) - m * two;
    y = (swap ? y : d) - m * value;
  }
  real x1 = y * (real(1) / p), x2 = 0;
  real solved = x1 - x1;
  x[first + (ROWS - 1) * step] = x1;
#pragma unroll 8
  for (int row = ROWS - 2; row >= 0; --row) {
    real v = held[row * pace] - near[row * pace] * x1;
    if (row + 2 < ROWS) v = v - far[row * pace] * x2;
    solved += v - v;
    x[first + row * step] = v;
    x2 = x1;
    x1 = v;
  }
  status[system] = verdict(given, solved);
}

// Five columns and the right-hand side.
struct Row {
  real at[6];
};

static __device__ __forceinline__ void larger_first(Row& top, Row& other) {
  const bool swap = absolute(other.at[0]) > absolute(top.at[0]);
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    const real above = top.at[k], below = other.at[k];
    top.at[k] = swap ? below : above;
    other.at[k] = swap ? above : below;
  }
}

static __device__ __forceinline__ Row without(const Row& other, const Row& top, real w) {
  const real m = other.at[0] * w;
  Row left;
#pragma unroll
  for (int k = 0; k < 4; ++k) left.at[k] = other.at[k + 1] - m * top.at[k + 1];
  left.at[4] = 0;
  left.at[5] = other.at[5] - m * top.at[5];
  return left;
}

extern "C" __global__ void __launch_bounds__(THREADS) pivoted_band(
    const real* __restrict__ E, const real* __restrict__ A, const real* __restrict__ B,
    const real* __restrict__ C, const real* __restrict__ F, const real* __restrict__ D, real* x,
    real* __restrict__ room, const long long systems, const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, ROWS, inner);
  const long long step = inner, plane = ROWS * systems;
  real* own = room + first;
  const bool several = ROWS > 1, many = ROWS > 2;
  Row top = {{B[first], several ? C[first] : real(0), many ? F[first] : real(0), 0, 0, D[first]}};
  Row middle = {{0, 0, 0, 0, 0, 0}};
  if (several) {
    const long long at = first + step;
    const Row second = {{A[at], B[at], many ? C[at] : real(0), ROWS > 3 ? F[at] : real(0), 0,
                         D[at]}};
    middle = second;
  }
  for (int row = 0; row < ROWS; ++row) {
    Row low = {{0, 0, 0, 0, 0, 0}};
    if (row + 2 < ROWS) {
      const long long at = first + (row + 2) * step;
      low.at[0] = E[at];
      low.at[1] = A[at];
      low.at[2] = B[at];
      low.at[3] = row + 3 < ROWS ? C[at] : real(0);
      low.at[4] = row + 4 < ROWS ? F[at] : real(0);
      low.at[5] = D[at];
    }
    larger_first(top, middle);
    larger_first(top, low);
    const real w = real(1) / top.at[0];
#pragma unroll
    for (int k = 0; k < 4; ++k) own[k * plane + row * step] = top.at[k + 1] * w;
    x[first + row * step] = top.at[5] * w;
    middle = without(middle, top, w);
    low = without(low, top, w);
    top = middle;
    middle = low;
  }
  real before[4] = {x[first + (ROWS - 1) * step], 0, 0, 0};
  for (int row = ROWS - 2; row >= 0; --row) {
    real v = x[first + row * step];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (row + 1 + k < ROWS) v = v - own[k * plane + row * step] * before[k];
    x[first + row * step] = v;
    before[3] = before[2];
    before[2] = before[1];
    before[1] = before[0];
    before[0] = v;
  }
}
