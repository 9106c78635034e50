// Trees of the same shape, interleaved: a thread a tree, elimination on the chip.
//
// Constants: REAL, NODES, DEPTH, THREADS. `parents` are local, one list for all trees. A node of
// tree t is at node * trees + t. Compulsory traffic: four elements a node.
typedef REAL real;
extern __shared__ __align__(16) unsigned char chip[];

extern "C" __global__ void __launch_bounds__(THREADS) uniform(
    const int* __restrict__ parents, const real* __restrict__ diagonal,
    const real* __restrict__ u, const real* __restrict__ rhs, real* __restrict__ x,
    const long long trees) {
  real* d = (real*)chip + threadIdx.x;
  real* r = d + NODES * THREADS;
  int* parent = (int*)((real*)chip + 2 * NODES * THREADS);
  for (int i = threadIdx.x; i < NODES; i += THREADS) parent[i] = parents[i] * THREADS;
  __syncthreads();
  const long long tree = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (tree >= trees) return;
  const real* down = u + tree;
  real ahead[DEPTH];
#pragma unroll
  for (int q = 0; q < DEPTH; ++q)
    ahead[q] = NODES - 1 - q > 0 ? __ldg(down + (NODES - 1 - q) * trees) : real(0);
#pragma unroll 8
  for (int i = 0; i < NODES; ++i) {
    d[i * THREADS] = __ldcs(diagonal + tree + i * trees);
    r[i * THREADS] = __ldcs(rhs + tree + i * trees);
  }
  if (d[0] == 0) {
    for (int i = 0; i < NODES; ++i) __stcs(x + tree + i * trees, r[i * THREADS]);
    return;
  }
  for (int i = NODES - 1; i > 0; i -= DEPTH) {
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int node = i - q;
      if (node > 0) {
        const real up = ahead[q];
        if (node - DEPTH > 0) ahead[q] = __ldg(down + (node - DEPTH) * trees);
        const real w = real(1) / d[node * THREADS];
        const real f = up * w, g = r[node * THREADS] * w;
        const int p = parent[node];
        d[p] -= f * up;
        r[p] -= g * up;
        d[node * THREADS] = f;
        r[node * THREADS] = g;
      }
    }
  }
  real v = r[0] * (real(1) / d[0]);
  r[0] = v;
  __stcs(x + tree, v);
#pragma unroll 4
  for (int i = 1; i < NODES; ++i) {
    v = r[i * THREADS] - d[i * THREADS] * r[parent[i]];
    r[i * THREADS] = v;
    __stcs(x + tree + i * trees, v);
  }
}
