// What the first and the last unknown of a piece of rows are in terms of their neighbours; a thread
// a piece, which reads each row once.
//
// Constants: REAL, THREADS. `ends` is indexed [equation, piece]; see `pieces.py`. Two rows or more.
#include "elements.cu"

// A row in terms of the unknown before the piece and of the next one.
struct Row {
  real left, right, value;

  __device__ __forceinline__ void eliminate(real low, real own, real high, real given) {
    const real w = real(1) / (own - low * right);
    left = -(low * left) * w;
    value = (given - low * value) * w;
    right = high * w;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) piece_ends(
    const real* __restrict__ a, const real* __restrict__ b, const real* __restrict__ c,
    const real* __restrict__ d, real* __restrict__ ends, const long long systems, const int rows,
    const int inner) {
  const long long system = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (system >= systems) return;
  long long at = first_of(system, rows, inner);
  const real w = real(1) / b[at];
  Row row = {a[at] * w, c[at] * w, d[at] * w}, first = row;
#pragma unroll 8
  for (int i = 1; i < rows - 1; ++i) {
    at += inner;
    row.eliminate(a[at], b[at], c[at], d[at]);
    first.value = first.value - first.right * row.value;
    first.left = first.left - first.right * row.left;
    first.right = -(first.right * row.right);
  }
  at += inner;
  row.eliminate(a[at], b[at], c[at], d[at]);
  ends[system] = first.left;
  ends[systems + system] = first.right;
  ends[2 * systems + system] = first.value;
  ends[3 * systems + system] = row.left;
  ends[4 * systems + system] = row.right;
  ends[5 * systems + system] = row.value;
}
