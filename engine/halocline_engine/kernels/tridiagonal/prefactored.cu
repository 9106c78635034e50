// Systems whose coefficients are eliminated already; a thread a system.
//
// Constants: REAL, ROWS, DEPTH, THREADS, ON_CHIP, SHARED (one matrix for all systems), FITS (and it
// lies on the chip), UNROLLED (a thread has all its rows in registers, and loads them at once).
// Compulsory traffic with a shared matrix is two elements a row: rhs in, x out.
#include "elements.cu"
extern __shared__ __align__(16) unsigned char chip[];

// Eliminate bands in their place: lower, diagonal, upper become lower, reciprocal, c.
extern "C" __global__ void __launch_bounds__(THREADS) factor(
    real* __restrict__ a, real* __restrict__ b, real* __restrict__ c, const long long systems,
    const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  long long at = first_of(system, ROWS, inner);
  real before = 0;
  for (int row = 0; row < ROWS; ++row, at += inner) {
    const real low = row ? a[at] : real(0);
    const real w = real(1) / (b[at] - low * before);
    before = c[at] * w;
    a[at] = low;
    b[at] = w;
    c[at] = before;
  }
}

#define WHOLE (ROWS / DEPTH)
#define REST (ROWS % DEPTH)

extern "C" __global__ void __launch_bounds__(THREADS) solve(
    const real* __restrict__ low, const real* __restrict__ w, const real* __restrict__ c,
    const real* __restrict__ d, real* x, const long long systems, const int inner) {
#if SHARED && FITS
  real* factors = (real*)chip;
  for (int row = threadIdx.x; row < ROWS; row += THREADS) {
    factors[row] = low[row];
    factors[ROWS + row] = w[row];
    factors[2 * ROWS + row] = c[row];
  }
  __syncthreads();
#endif
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, ROWS, inner), step = inner;
#if SHARED && FITS
#define FACTOR(from, n, row) factors[n * ROWS + (row)]
#elif SHARED
#define FACTOR(from, n, row) __ldg(from + (row))
#else
#define FACTOR(from, n, row) from[first + (row) * step]
#endif
#define LOW(row) FACTOR(low, 0, row)
#define RECIPROCAL(row) FACTOR(w, 1, row)
#define UPPER(row) FACTOR(c, 2, row)
#if UNROLLED
  real y[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) y[row] = d[first + row * step];
  real v = 0;
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    v = (y[row] - LOW(row) * v) * RECIPROCAL(row);
    y[row] = v;
  }
  x[first + (ROWS - 1) * step] = v;
#pragma unroll
  for (int row = ROWS - 2; row >= 0; --row) {
    v = y[row] - UPPER(row) * v;
    x[first + row * step] = v;
  }
#else
#if ON_CHIP
  real* y = (real*)chip + (SHARED && FITS ? 3 * ROWS : 0) + threadIdx.x;
  const long long pace = THREADS;
#else
  real* y = x + first;
  const long long pace = step;
#endif
  real v = 0;
  real ahead[DEPTH];
#pragma unroll
  for (int q = 0; q < DEPTH; ++q)
    if (q < ROWS) ahead[q] = d[first + q * step];
  for (int group = 0; group < WHOLE - 1; ++group) {
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int row = group * DEPTH + q;
      const real now = ahead[q];
      ahead[q] = d[first + (row + DEPTH) * step];
      v = (now - LOW(row) * v) * RECIPROCAL(row);
      y[row * pace] = v;
    }
  }
#if WHOLE > 0
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const int row = (WHOLE - 1) * DEPTH + q;
    const real now = ahead[q];
    if (q < REST) ahead[q] = d[first + (row + DEPTH) * step];
    v = (now - LOW(row) * v) * RECIPROCAL(row);
    y[row * pace] = v;
  }
#endif
#pragma unroll
  for (int q = 0; q < REST; ++q) {
    const int row = WHOLE * DEPTH + q;
    v = (ahead[q] - LOW(row) * v) * RECIPROCAL(row);
    y[row * pace] = v;
  }
  x[first + (ROWS - 1) * step] = v;
#pragma unroll 8
  for (int row = ROWS - 2; row >= 0; --row) {
    v = y[row * pace] - UPPER(row) * v;
    x[first + row * step] = v;
  }
#endif
}
