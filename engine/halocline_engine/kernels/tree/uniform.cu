// Trees of the same shape, interleaved: a thread a tree, what the sweeps hand on stays on the chip.
//
// Constants: REAL, NODES, EXTRA (slots beside those of the nodes), DEPTH (nodes of a round), THREADS.
// A node of tree t is at node * trees + t. The loads of a round are queued together, before the nodes
// of the round at hand are eliminated. What a node gives to the one before it stays in a register;
// what it gives to another parent waits in a slot, which is the parent's own one where it is free.
//
// `shape` is copied to the chip. It has a mask for each round of the way up, from the last node to
// the first, with a bit for each node that gives to a slot or takes from one; a mask for each group of
// the way down, from node 1, with a bit for each node whose parent is not the node before, or that is
// such a parent; then, for each node, one more than the slot it gives to (0: none), from how many
// slots it takes, its parent, where its slots begin in what follows, and room for these slots, in the
// order in which they are subtracted. Compulsory traffic: four elements a node.
typedef REAL real;
typedef unsigned short Small;
extern __shared__ __align__(16) unsigned char chip[];

#define WHOLE (NODES / DEPTH)
#define REST (NODES % DEPTH)
#define SLOTS (NODES + EXTRA)
// Nodes of a group on the way down.
#define GROUP 8
#define ROUNDS ((NODES + DEPTH - 1) / DEPTH)
#define GROUPS ((NODES + GROUP - 2) / GROUP)
#define SHAPE (ROUNDS + GROUPS + 5 * NODES)

struct Shape {
  const Small *up, *down, *gives, *takes, *parents, *begins, *slots;
};

struct Round {
  real d[DEPTH], u[DEPTH], r[DEPTH];
};

struct Given {
  real d, r;
};

template <int COUNT>
static __device__ __forceinline__ void bring(Round& into, const real* __restrict__ d,
                                             const real* __restrict__ u,
                                             const real* __restrict__ r, long long trees,
                                             int last) {
  const long long at = last * trees;
#pragma unroll
  for (int q = 0; q < COUNT; ++q) {
    into.d[q] = d[at - q * trees];
    into.u[q] = u[at - q * trees];
    into.r[q] = r[at - q * trees];
  }
}

// Eliminate the nodes of a round, `last` and those before it.
template <int COUNT>
static __device__ __forceinline__ void eliminate(const Round& nodes, const Shape& shape, int round,
                                                 real* f, real* g, Given& given) {
  const int last = NODES - 1 - round * DEPTH, special = shape.up[round];
  real* const own_f = f + last * THREADS;
  real* const own_g = g + last * THREADS;
#pragma unroll
  for (int q = 0; q < COUNT; ++q) {
    const int node = last - q;
    real d = nodes.d[q], r = nodes.r[q];
    if (special >> q & 1) {
      const int takes = shape.takes[node];
      const Small* const slots = shape.slots + shape.begins[node];
#pragma unroll 1
      for (int k = 0; k < takes; ++k) {
        const int from = slots[k] * THREADS;
        d -= f[from];
        r -= g[from];
      }
    }
    d -= given.d;
    r -= given.r;
    const real w = real(1) / d;
    const real up = nodes.u[q] * w, right = r * w;
    own_f[-q * THREADS] = up;
    own_g[-q * THREADS] = right;
    given.d = up * nodes.u[q];
    given.r = right * nodes.u[q];
    if (special >> q & 1) {
      const int gives = shape.gives[node];
      if (gives) {
        f[(gives - 1) * THREADS] = given.d;
        g[(gives - 1) * THREADS] = given.r;
        given.d = given.r = 0;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) uniform(
    const Small* __restrict__ table, const real* __restrict__ diagonal,
    const real* __restrict__ u, const real* __restrict__ rhs, real* __restrict__ x,
    const long long trees) {
  Small* const held = (Small*)((real*)chip + 2 * SLOTS * THREADS);
  for (int i = threadIdx.x; i < SHAPE; i += THREADS) held[i] = table[i];
  const Shape shape = {held,
                       held + ROUNDS,
                       held + ROUNDS + GROUPS,
                       held + ROUNDS + GROUPS + NODES,
                       held + ROUNDS + GROUPS + 2 * NODES,
                       held + ROUNDS + GROUPS + 3 * NODES,
                       held + ROUNDS + GROUPS + 4 * NODES};
  const long long tree = (long long)blockIdx.x * THREADS + threadIdx.x;
  const bool there = tree < trees;
  real* const f = (real*)chip + threadIdx.x;
  real* const g = f + SLOTS * THREADS;
  const long long column = there ? tree : 0;
  const real *pd = diagonal + column, *pu = u + column, *pr = rhs + column;
  real* const to = x + column;
  Given given = {0, 0};
  Round even;
#if WHOLE > 0
  Round odd;
#endif
#define BRING(set, round, count)                                                                  \
  bring<count>(set, pd, pu, pr, trees, NODES - 1 - (round) * DEPTH)
#define ELIMINATE(set, round, count) eliminate<count>(set, shape, round, f, g, given)
#if WHOLE == 0
  BRING(even, 0, REST);
  __syncthreads();
  if (!there) return;
  const bool skipped = pd[0] == 0;
  ELIMINATE(even, 0, REST);
#else
  BRING(even, 0, DEPTH);
  __syncthreads();
  if (!there) return;
  const bool skipped = pd[0] == 0;
#pragma unroll 1
  for (int round = 0; round < (WHOLE - 1) / 2 * 2; round += 2) {
    BRING(odd, round + 1, DEPTH);
    ELIMINATE(even, round, DEPTH);
    BRING(even, round + 2, DEPTH);
    ELIMINATE(odd, round + 1, DEPTH);
  }
#if WHOLE % 2
#if REST
  BRING(odd, WHOLE, REST);
#endif
  ELIMINATE(even, WHOLE - 1, DEPTH);
#if REST
  ELIMINATE(odd, WHOLE, REST);
#endif
#else
  BRING(odd, WHOLE - 1, DEPTH);
  ELIMINATE(even, WHOLE - 2, DEPTH);
#if REST
  BRING(even, WHOLE, REST);
#endif
  ELIMINATE(odd, WHOLE - 1, DEPTH);
#if REST
  ELIMINATE(even, WHOLE, REST);
#endif
#endif
#endif
  if (skipped) {
    for (int node = 0; node < NODES; ++node) to[node * trees] = pr[node * trees];
    return;
  }
  real v = g[0];
  to[0] = v;
#pragma unroll 1
  for (int group = 0; group < GROUPS; ++group) {
    const int first = 1 + group * GROUP, special = shape.down[group];
    real low[GROUP], right[GROUP];
#pragma unroll
    for (int q = 0; q < GROUP; ++q) {
      const int node = first + q < NODES ? first + q : NODES - 1;
      low[q] = f[node * THREADS];
      right[q] = g[node * THREADS];
    }
#pragma unroll
    for (int q = 0; q < GROUP; ++q) {
      const int node = first + q;
      if (node < NODES) {
        if (special >> q & 1) {
          if (shape.gives[node]) v = g[shape.parents[node] * THREADS];
          v = right[q] - low[q] * v;
          g[node * THREADS] = v;
        } else {
          v = right[q] - low[q] * v;
        }
        to[node * trees] = v;
      }
    }
  }
}
