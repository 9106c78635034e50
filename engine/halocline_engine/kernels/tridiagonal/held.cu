// Both ends of pieces of rows: what bands have there, and unknowns that take values that are known;
// a thread a piece.
//
// Constants: REAL, THREADS. `known` is indexed [end, piece]; of the bands, only both ends change.
// `ends` is a batch of two rows a piece for each band.
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

extern "C" __global__ void __launch_bounds__(THREADS) bands_at_ends(
    const real* __restrict__ a, const real* __restrict__ b, const real* __restrict__ c,
    const real* __restrict__ d, real* __restrict__ ends, const long long systems, const int rows,
    const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  const long long first = first_of(system, rows, inner), to = first_of(system, 2, inner);
#pragma unroll
  for (int end = 0; end < 2; ++end) {
    const long long at = first + end * (rows - 1) * (long long)inner;
    const long long there = to + end * (long long)inner;
    ends[there] = a[at];
    ends[2 * systems + there] = b[at];
    ends[4 * systems + there] = c[at];
    ends[6 * systems + there] = d[at];
  }
}
