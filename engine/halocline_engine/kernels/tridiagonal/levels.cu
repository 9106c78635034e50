// Pieces of rows and the system of their ends, which is cut into pieces itself; see `pieces.py`.
// A thread a piece, with the bits of the reference.
//
// Constants: REAL, THREADS. Batches are indexed [outer, row, inner]. Each system of `rows` rows has
// `pieces` of `size` rows, the last of which has the rest as well; `all` is how many pieces there
// are of all systems. `ends` is indexed [equation, outer, piece, inner], and `known`
// [end, outer, piece, inner].
#include "elements.cu"
#include "row.cu"

// The first element of a piece, and how many rows it has.
struct Place {
  long long first;
  int rows;
};

static __device__ __forceinline__ Place place_of(long long at, int rows, int inner, int size,
                                                 int pieces) {
  const long long column = at / inner, system = column / pieces;
  const int piece = (int)(column - system * pieces);
  const long long row = system * rows + (long long)piece * size;
  return {row * inner + (at - column * inner), piece == pieces - 1 ? rows - piece * size : size};
}

// The piece before another one, or behind it; -1 where there is none.
static __device__ __forceinline__ long long beside(long long at, int step, int inner, int pieces,
                                                   int periodic) {
  const int piece = (int)(at / inner % pieces) + step;
  if (piece >= 0 && piece < pieces) return at + step * (long long)inner;
  return periodic ? at - step * (pieces - 1LL) * inner : -1;
}

// The equations of both ends of each piece, which is read once.
extern "C" __global__ void __launch_bounds__(THREADS) reduce(
    const real* __restrict__ a, const real* __restrict__ b, const real* __restrict__ c,
    const real* __restrict__ d, real* __restrict__ ends, const long long all, const int rows,
    const int inner, const int size, const int pieces) {
  const long long piece = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (piece >= all) return;
  const Place place = place_of(piece, rows, inner, size, pieces);
  long long at = place.first;
  Ends found;
  found.begin(a[at], b[at], c[at], d[at]);
#pragma unroll 8
  for (int i = 1; i < place.rows - 1; ++i) {
    at += inner;
    found.go_on(a[at], b[at], c[at], d[at]);
  }
  at += inner;
  found.end(a[at], b[at], c[at], d[at]);
  found.write(ends, all, piece);
}

// The system of last unknowns: each first one is put into the equation before it.
extern "C" __global__ void __launch_bounds__(THREADS) couple(
    const real* __restrict__ ends, real* __restrict__ a, real* __restrict__ b,
    real* __restrict__ c, real* __restrict__ d, const long long all, const int inner,
    const int pieces, const int periodic) {
  const long long piece = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (piece >= all) return;
  const long long next = beside(piece, 1, inner, pieces, periodic);
  const real left = next < 0 ? real(0) : ends[next];
  const real right = next < 0 ? real(0) : ends[all + next];
  const real value = next < 0 ? real(0) : ends[2 * all + next];
  const real own = ends[4 * all + piece];
  a[piece] = ends[3 * all + piece];
  b[piece] = real(1) - own * left;
  c[piece] = -(own * right);
  d[piece] = ends[5 * all + piece] - own * value;
}

// Both ends of `own` pieces of each system from `first` on, given the last unknowns of all, `x`.
extern "C" __global__ void __launch_bounds__(THREADS) know(
    const real* __restrict__ ends, const real* __restrict__ x, real* __restrict__ known,
    const long long all, const int inner, const int pieces, const int first, const int own,
    const int periodic) {
  const long long to = (long long)blockIdx.x * THREADS + threadIdx.x, some = all / pieces * own;
  if (to >= some) return;
  const long long column = to / inner, system = column / own;
  const long long piece = (system * pieces + first + (column - system * own)) * inner +
                          (to - column * inner);
  const long long before = beside(piece, -1, inner, pieces, periodic);
  const real last = x[piece], left = before < 0 ? real(0) : x[before];
  known[to] = ends[2 * all + piece] - ends[piece] * left - ends[all + piece] * last;
  known[some + to] = last;
}

// The unknowns of pieces whose ends are known, in `d`; `c` takes what is computed on the way.
extern "C" __global__ void __launch_bounds__(THREADS) substitute(
    const real* __restrict__ a, const real* __restrict__ b, real* __restrict__ c,
    real* __restrict__ d, const real* __restrict__ known, const long long all, const int rows,
    const int inner, const int size, const int pieces) {
  const long long piece = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (piece >= all) return;
  const Place place = place_of(piece, rows, inner, size, pieces);
  long long at = place.first;
  real scaled = 0, found = known[piece];
  c[at] = scaled;
  d[at] = found;
#pragma unroll 8
  for (int i = 1; i < place.rows; ++i) {
    at += inner;
    const bool last = i == place.rows - 1;
    const real low = last ? real(0) : a[at], own = last ? real(1) : b[at];
    const real w = real(1) / (own - low * scaled);
    found = ((last ? known[all + piece] : d[at]) - low * found) * w;
    scaled = (last ? real(0) : c[at]) * w;
    c[at] = scaled;
    d[at] = found;
  }
#pragma unroll 8
  for (int i = 1; i < place.rows; ++i) {
    at -= inner;
    found = d[at] - c[at] * found;
    d[at] = found;
  }
}
