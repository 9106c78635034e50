// Pentadiagonal systems, a thread each.
//
// Constants: REAL, ROWS, THREADS. `room` has 2 * ROWS * systems elements; x is used as room as well.
#include "elements.cu"

extern "C" __global__ void __launch_bounds__(THREADS) pentadiagonal(
    const real* __restrict__ e, const real* __restrict__ a, const real* __restrict__ b,
    const real* __restrict__ c, const real* __restrict__ f, const real* __restrict__ d, real* x,
    real* __restrict__ room, const long long systems, const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, ROWS, inner), step = inner;
  real* near = room + first;
  real* far = room + ROWS * systems + first;
  real* y = x + first;
  real near1 = 0, near2 = 0, far1 = 0, far2 = 0, y1 = 0, y2 = 0;
#pragma unroll 4
  for (int row = 0; row < ROWS; ++row) {
    const long long at = first + row * step;
    real left = a[at], pivot = b[at], value = d[at], right = c[at];
    if (row > 1) {
      const real skip = e[at];
      left = left - skip * near2;
      pivot = pivot - skip * far2;
      value = value - skip * y2;
    }
    if (row > 0) {
      pivot = pivot - left * near1;
      value = value - left * y1;
      right = right - left * far1;
    }
    const real w = real(1) / pivot;
    near2 = near1;
    far2 = far1;
    y2 = y1;
    near1 = right * w;
    far1 = f[at] * w;
    y1 = value * w;
    near[row * step] = near1;
    far[row * step] = far1;
    y[row * step] = y1;
  }
  real x1 = y1, x2 = 0;
#pragma unroll 4
  for (int row = ROWS - 2; row >= 0; --row) {
    real v = y[row * step] - near[row * step] * x1;
    if (row + 2 < ROWS) v = v - far[row * step] * x2;
    y[row * step] = v;
    x2 = x1;
    x1 = v;
  }
}
