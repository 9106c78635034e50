// Trees of the same shape, interleaved: LANES threads a tree; what the sweeps hand on stays on the
// chip.
//
// A block has TREES neighbouring trees. A node of tree t is at node * trees + t. Each lane of a tree
// has at most one node in each row, and children are in rows before their parents; see `lanes.py`.
// The loads of a round of rows are queued together, before the nodes of the round at hand are
// eliminated. What a node gives to its parent stays in registers where that comes next in its lane;
// else it waits in the parent's own place, which is free until then, or in an extra one.
//
// Constants: REAL, NODES, EXTRA (places beside those of the nodes), ROWS, LANES, DEPTH (rows of a
// round), TREES, THREADS = LANES * TREES, BLOCKS (that run at once).
// `table` has three words for each [lane, row]. On the way up: 12 bits for the node's place, 12 bits
// for one more than the place it gives to, and bits that say: 29, lanes meet first; 30, it takes what
// waits in its own place; 31, lanes meet or it takes from several places. On the way down, from the
// last row to the first: the node's place and its parent's, and bits: 28, others ask for its value;
// 29, it asks for its parent's; 31, lanes meet first. Last, for what is taken from several places: 16
// bits for the first extra one, 16 bits for how many there are with its own. Where a lane has no node,
// there is the last place.
typedef REAL real;
typedef unsigned int Word;
extern __shared__ __align__(16) unsigned char chip[];

#define PLACES (NODES + EXTRA + 1)
#define ROUNDS (ROWS / DEPTH)
#define ENTRIES (ROWS * LANES)
#define SELDOM(condition) __builtin_expect((condition) ? 1 : 0, 0)

#ifdef __CUDACC__
static __device__ __forceinline__ void copy_async16(void* into, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)),
               "l"(from)
               : "memory");
}
static __device__ __forceinline__ void copy_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
#endif

// The reciprocal, rounded once: what a division is compiled to, float32's with the usual case first.
static __device__ __forceinline__ double inverse(double d) { return 1 / d; }
static __device__ __forceinline__ float inverse(float d) {
#ifdef __CUDACC__
  float w;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(d));
  w = __fmaf_rn(w, -__fmaf_rn(d, w, -1.0f), w);
  const unsigned int magnitude = (__float_as_uint(d) + 0x1800000u) & 0x7f800000u;
  if (SELDOM(magnitude <= 0x1ffffffu)) w = 1 / d;
  return w;
#else
  return 1 / d;
#endif
}

static __device__ __forceinline__ int place_of(Word word) { return word & 4095; }
static __device__ __forceinline__ int other_of(Word word) { return word >> 12 & 4095; }

struct Round {
  real d[DEPTH], u[DEPTH], r[DEPTH];
  Word words[DEPTH];
};

struct Given {
  real d, r;
};

static __device__ __forceinline__ void meet() {
  if (THREADS > 32)
    __syncthreads();
  else
    __syncwarp();
}

static __device__ __forceinline__ void words_at(Word (&into)[DEPTH], const Word* from) {
#pragma unroll
  for (int q = 0; q < DEPTH; q += 4) {
    const uint4 four = *(const uint4*)(from + q);
    into[q] = four.x;
    into[q + 1] = four.y;
    into[q + 2] = four.z;
    into[q + 3] = four.w;
  }
}

static __device__ __forceinline__ void bring(Round& into, const real* __restrict__ d,
                                             const real* __restrict__ u,
                                             const real* __restrict__ r, const long long trees,
                                             const Word* words) {
  words_at(into.words, words);
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const int node = place_of(into.words[q]);
    const long long at = node * trees;
    const bool inside = node < NODES;
    into.d[q] = inside ? d[at] : real(1);
    into.u[q] = inside ? u[at] : real(0);
    into.r[q] = inside ? r[at] : real(0);
  }
}

static __device__ __forceinline__ void eliminate(const Round& nodes, const Word* taken, real* f,
                                                 real* g, Given& given) {
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const Word word = nodes.words[q];
    const int own = place_of(word) * TREES;
    real d = nodes.d[q], r = nodes.r[q];
    if (SELDOM(word >> 31)) {
      if (LANES > 1 && (word >> 29 & 1)) meet();
      const int count = taken[q] >> 16;
      if (count > 1) {
        d -= f[own];
        r -= g[own];
        const int begin = taken[q] & 65535;
#pragma unroll 1
        for (int k = begin; k < begin + count - 1; ++k) {
          d -= f[k * TREES];
          r -= g[k * TREES];
        }
      }
    }
    if (word >> 30 & 1) {
      d -= f[own];
      r -= g[own];
    }
    d -= given.d;
    r -= given.r;
    const real w = inverse(d);
    const real up = nodes.u[q] * w, right = r * w;
    given.d = up * nodes.u[q];
    given.r = right * nodes.u[q];
    f[own] = up;
    g[own] = right;
    const int gives = other_of(word);
    if (gives) {
      f[(gives - 1) * TREES] = given.d;
      g[(gives - 1) * TREES] = given.r;
      given.d = given.r = 0;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) lanes(
    const Word* __restrict__ table, const real* __restrict__ diagonal,
    const real* __restrict__ u, const real* __restrict__ rhs, real* __restrict__ x,
    const long long trees) {
  Word* const held = (Word*)((real*)chip + 2 * PLACES * TREES);
  const int column = threadIdx.x % TREES, lane = threadIdx.x / TREES;
  const long long tree = (long long)blockIdx.x * TREES + column;
  const bool there = tree < trees;
  const long long at = there ? tree : 0;
  const real *pd = diagonal + at, *pu = u + at, *pr = rhs + at;
  const real root = pd[0];
  for (int i = 4 * threadIdx.x; i < 3 * ENTRIES; i += 4 * THREADS)
    copy_async16(held + i, table + i);
  const Word* const up = held + lane * ROWS;
  const Word* const down = up + ENTRIES;
  const Word* const taken = down + ENTRIES;
  real* const f = (real*)chip + column;
  real* const g = f + PLACES * TREES;
  Given given = {0, 0};
  Round even, odd;
#define BRING(set, round) bring(set, pd, pu, pr, trees, up + (round) * DEPTH)
#define ELIMINATE(set, round) eliminate(set, taken + (round) * DEPTH, f, g, given)
  // The first loads do not wait until the table is on the chip.
  bring(even, pd, pu, pr, trees, table + lane * ROWS);
  copy_async_wait_all();
  __syncthreads();
#pragma unroll 1
  for (int round = 0; round < (ROUNDS - 1) / 2 * 2; round += 2) {
    BRING(odd, round + 1);
    ELIMINATE(even, round);
    BRING(even, round + 2);
    ELIMINATE(odd, round + 1);
  }
#if ROUNDS % 2
  ELIMINATE(even, ROUNDS - 1);
#else
  BRING(odd, ROUNDS - 1);
  ELIMINATE(even, ROUNDS - 2);
  ELIMINATE(odd, ROUNDS - 1);
#endif
  // The root depends on no other node.
  if (place_of(up[ROWS - 1]) == 0) f[0] = 0;
  const bool skipped = root == 0, writes = there && !skipped;
  real* const to = x + at;
  real v = 0;
  Word words[DEPTH];
  words_at(words, down);
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    real low[DEPTH], right[DEPTH];
    Word now[DEPTH];
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      now[q] = words[q];
      low[q] = f[place_of(now[q]) * TREES];
      right[q] = g[place_of(now[q]) * TREES];
    }
    if (round < ROUNDS - 1) words_at(words, down + (round + 1) * DEPTH);
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int node = place_of(now[q]);
      if (LANES > 1 && SELDOM(now[q] >> 31)) meet();
      if (now[q] >> 29 & 1) v = g[other_of(now[q]) * TREES];
      v = right[q] - low[q] * v;
      if (now[q] >> 28 & 1) g[node * TREES] = v;
      if (node < NODES && writes) to[node * trees] = v;
    }
  }
  if (there && skipped)
    for (int node = lane; node < NODES; node += LANES) to[node * trees] = pr[node * trees];
}
