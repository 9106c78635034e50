// The first and the last unknown of pieces of rows take values that are known; a thread a piece.
//
// Constants: REAL, THREADS. `known` is indexed [end, piece]; of the bands, only both ends change.
#include "elements.cu"

extern "C" __global__ void __launch_bounds__(THREADS) hold_ends(
    real* __restrict__ a, real* __restrict__ b, real* __restrict__ c, real* __restrict__ d,
    const real* __restrict__ known, const long long systems, const int rows, const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, rows, inner);
#pragma unroll
  for (int end = 0; end < 2; ++end) {
    const long long at = first + end * (rows - 1) * (long long)inner;
    a[at] = c[at] = 0;
    b[at] = 1;
    d[at] = known[end * systems + system];
  }
}
