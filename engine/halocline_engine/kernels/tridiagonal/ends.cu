// What the first and the last unknown of a piece of rows are in terms of their neighbours; a thread
// a piece.
//
// Constants: REAL, THREADS. `ends` is indexed [equation, piece]; see `pieces.py`. Two rows or more.
#include "elements.cu"

extern "C" __global__ void __launch_bounds__(THREADS) piece_ends(
    const real* __restrict__ a, const real* __restrict__ b, const real* __restrict__ c,
    const real* __restrict__ d, real* __restrict__ ends, const long long systems, const int rows,
    const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, rows, inner);
  long long at = first + (rows - 2) * (long long)inner;
  real w = real(1) / b[at];
  real left = a[at] * w, own = c[at] * w, value = d[at] * w;
#pragma unroll 8
  for (int row = rows - 3; row >= 0; --row) {
    at -= inner;
    const real high = c[at];
    w = real(1) / (b[at] - high * left);
    own = -(high * own) * w;
    value = (d[at] - high * value) * w;
    left = a[at] * w;
  }
  ends[system] = left;
  ends[systems + system] = own;
  ends[2 * systems + system] = value;
  at = first;
  w = real(1) / b[at];
  left = a[at] * w;
  value = d[at] * w;
  real right = c[at] * w;
#pragma unroll 8
  for (int row = 1; row < rows; ++row) {
    at += inner;
    const real low = a[at];
    w = real(1) / (b[at] - low * right);
    left = -(low * left) * w;
    value = (d[at] - low * value) * w;
    right = c[at] * w;
  }
  ends[3 * systems + system] = left;
  ends[4 * systems + system] = right;
  ends[5 * systems + system] = value;
}
