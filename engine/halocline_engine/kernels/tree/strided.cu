// A thread a tree; trees lie flat (stride 1) or interleaved, with absolute parent indices.
//
// Constants: REAL, DEPTH (nodes that are loaded ahead), THREADS. `bases` says where each tree's first
// node is, `sizes` how many it has. The highest bit of a parent index marks a fork: a node with a
// child that does not stand right behind it. What a node gives to the one before it stays in
// registers; only what it gives to a fork goes through memory, so that a step does not wait for it.
// `d` is room for as many elements as `diagonal` has; x may not be `rhs`.
typedef REAL real;

#define FORK 0x80000000u

struct Node {
  real d, u, r;
  unsigned int parent;
};

extern "C" __global__ void __launch_bounds__(THREADS) strided(
    const long long* __restrict__ bases, const long long* __restrict__ sizes,
    const unsigned int* __restrict__ parents, const real* __restrict__ diagonal,
    const real* __restrict__ u, const real* __restrict__ rhs, real* __restrict__ d,
    real* __restrict__ x, const int trees, const int stride) {
  const int tree = blockIdx.x * THREADS + threadIdx.x;
  if (tree >= trees) return;
  const long long base = bases[tree];
  const int size = (int)sizes[tree];
  if (size == 0) return;
  if (diagonal[base] == 0) {
    for (int i = 0; i < size; ++i) x[base + (long long)i * stride] = rhs[base + (long long)i * stride];
    return;
  }
#pragma unroll 8
  for (int i = 0; i < size; ++i) {
    const long long at = base + (long long)i * stride;
    if (parents[at] & FORK) {
      d[at] = diagonal[at];
      x[at] = rhs[at];
    }
  }
  Node ahead[DEPTH];
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const long long at = base + (long long)(size - 1 - q) * stride;
    if (size - 1 - q >= 0) {
      ahead[q].d = diagonal[at];
      ahead[q].u = u[at];
      ahead[q].r = rhs[at];
      ahead[q].parent = parents[at];
    }
  }
  // What the node behind gives to the one at hand, if that is its parent.
  bool given = false;
  real give_d = 0, give_r = 0;
  for (int i = size - 1; i > 0; i -= DEPTH) {
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int node = i - q;
      if (node > 0) {
        const Node now = ahead[q];
        const long long at = base + (long long)node * stride;
        if (node >= DEPTH) {
          const long long next = at - (long long)DEPTH * stride;
          ahead[q].d = diagonal[next];
          ahead[q].u = u[next];
          ahead[q].r = rhs[next];
          ahead[q].parent = parents[next];
        }
        real dn = now.d, rn = now.r;
        if (now.parent & FORK) {
          dn = d[at];
          rn = x[at];
        }
        if (given) {
          dn -= give_d;
          rn -= give_r;
        }
        const real w = real(1) / dn;
        const real f = now.u * w, g = rn * w;
        d[at] = f;
        x[at] = g;
        give_d = f * now.u;
        give_r = g * now.u;
        const long long p = now.parent & ~FORK;
        given = p == at - stride;
        if (!given) {
          d[p] -= give_d;
          x[p] -= give_r;
        }
      }
    }
  }
  const bool fork = parents[base] & FORK;
  real dn = diagonal[base], v = rhs[base];
  if (fork) {
    dn = d[base];
    v = x[base];
  }
  if (given) {
    dn -= give_d;
    v -= give_r;
  }
  v = v * (real(1) / dn);
  x[base] = v;
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const long long at = base + (long long)(1 + q) * stride;
    if (1 + q < size) {
      ahead[q].d = d[at];
      ahead[q].r = x[at];
      ahead[q].parent = parents[at];
    }
  }
  for (int i = 1; i < size; i += DEPTH) {
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int node = i + q;
      if (node < size) {
        const Node now = ahead[q];
        const long long at = base + (long long)node * stride;
        if (node + DEPTH < size) {
          const long long next = at + (long long)DEPTH * stride;
          ahead[q].d = d[next];
          ahead[q].r = x[next];
          ahead[q].parent = parents[next];
        }
        const long long p = now.parent & ~FORK;
        if (p != at - stride) v = x[p];
        v = now.r - now.d * v;
        x[at] = v;
      }
    }
  }
}
