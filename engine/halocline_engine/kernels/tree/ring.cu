// A thread a tree; trees lie flat (stride 1) or interleaved, and come through a ring on the chip.
//
// Constants: REAL, DEPTH (nodes of a stage), UP, DOWN (stages of the ring on either way), SLOTS (of a
// thread), THREADS, which are those of a warp.
// `bases` says where each tree's first node is, `sizes` how many it has. `marks` has for each node, from
// the lowest bit on: 12 bits that are one more than the slot for what it gives, if its parent is not
// the node before (else 0); 8 bits, from how many slots it takes, and 12 bits, the first of these, in
// the order in which they are subtracted. On the way down a node puts its value into the same slots.
// What a node gives to the one before it stays in registers.
// `d` is room for as many elements as `diagonal` has; x may not be `rhs`.
typedef REAL real;
typedef unsigned int Mark;
extern __shared__ __align__(16) unsigned char chip[];

#define EVERY 0xffffffffu
// Elements of an array in a stage.
#define STAGE (DEPTH * THREADS)

#ifdef __CUDACC__
template <int SIZE> static __device__ __forceinline__ void copy_some(void* into, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)),
               "l"(from), "n"(SIZE)
               : "memory");
}
static __device__ __forceinline__ void copy_async4(void* into, const void* from) {
  copy_some<4>(into, from);
}
static __device__ __forceinline__ void copy_async8(void* into, const void* from) {
  copy_some<8>(into, from);
}
static __device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LATEST> static __device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}
#endif

static __device__ __forceinline__ void copy(double* into, const double* from) {
  copy_async8(into, from);
}
static __device__ __forceinline__ void copy(float* into, const float* from) {
  copy_async4(into, from);
}

struct Tree {
  long long base, step;
  int size;
};

struct Slots {
  real *d, *r;
};

static __device__ __forceinline__ int taken(Mark mark) { return mark >> 12 & 255; }
static __device__ __forceinline__ int first_taken(Mark mark) { return mark >> 20; }
static __device__ __forceinline__ int given_to(Mark mark) { return (int)(mark & 4095) - 1; }

// Queue the loads of a round's nodes of some arrays, if there is such a round, as one group. Where
// there is no node, what follows changes nothing.
template <int ARRAYS>
static __device__ __forceinline__ void queue(real* into, Mark* marked, const Tree& tree, int round,
                                             int rounds, const Mark* marks, const real* a,
                                             const real* b, const real* c) {
  if (round >= 0 && round < rounds) {
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int node = round * DEPTH + q;
      real* const to = into + q * THREADS;
      if (node < tree.size) {
        const long long at = tree.base + node * tree.step;
        copy(to, a + at);
        copy(to + STAGE, b + at);
        if (ARRAYS == 3) copy(to + 2 * STAGE, c + at);
        copy_async4(marked + q * THREADS, marks + at);
      } else {
        to[0] = ARRAYS == 3 ? 1 : 0;
        to[STAGE] = 0;
        if (ARRAYS == 3) to[2 * STAGE] = 0;
        marked[q * THREADS] = 0;
      }
    }
  }
  copy_async_commit();
}

// Eliminate from the last node to the first; `marked` is the part of the ring for marks.
static __device__ __forceinline__ void eliminate(real* ring, Mark* marked, const Slots& slots,
                                                 const Tree& tree, int rounds,
                                                 const Mark* __restrict__ marks,
                                                 const real* __restrict__ diagonal,
                                                 const real* __restrict__ u,
                                                 const real* __restrict__ rhs, real* d, real* x) {
#define QUEUE(round)                                                                          \
  queue<3>(ring + ((round) + UP) % UP * 3 * STAGE, marked + ((round) + UP) % UP * STAGE, tree, \
           round, rounds, marks, diagonal, u, rhs)
#pragma unroll 1
  for (int k = 1; k < UP; ++k) QUEUE(rounds - k);
  real given_d = 0, given_r = 0;
#pragma unroll 1
  for (int round = rounds - 1; round >= 0; --round) {
    copy_async_wait<UP - 2>();
    QUEUE(round - (UP - 1));
#undef QUEUE
    const real* const from = ring + round % UP * 3 * STAGE;
    const Mark* const word = marked + round % UP * STAGE;
    real dn[DEPTH], un[DEPTH], rn[DEPTH];
    Mark mark[DEPTH];
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      dn[q] = from[q * THREADS];
      un[q] = from[STAGE + q * THREADS];
      rn[q] = from[2 * STAGE + q * THREADS];
      mark[q] = word[q * THREADS];
    }
    const long long first = tree.base + (long long)round * DEPTH * tree.step;
    const int inside = tree.size - round * DEPTH;
#pragma unroll
    for (int q = DEPTH - 1; q >= 0; --q) {
      real dq = dn[q], rq = rn[q];
      if (mark[q]) {
        const int takes = taken(mark[q]), begin = first_taken(mark[q]);
#pragma unroll 1
        for (int k = begin; k < begin + takes; ++k) {
          dq -= slots.d[k * THREADS];
          rq -= slots.r[k * THREADS];
        }
      }
      dq -= given_d;
      rq -= given_r;
      const real w = real(1) / dq;
      const real f = un[q] * w, g = rq * w;
      if (q < inside) {
        d[first + q * tree.step] = f;
        x[first + q * tree.step] = g;
      }
      given_d = f * un[q];
      given_r = g * un[q];
      const int slot = given_to(mark[q]);
      if (slot >= 0) {
        slots.d[slot * THREADS] = given_d;
        slots.r[slot * THREADS] = given_r;
        given_d = given_r = 0;
      }
    }
  }
}

// Substitute from the first node to the last, unless the tree is skipped.
static __device__ __forceinline__ void substitute(real* ring, Mark* marked, real* slots,
                                                  const Tree& tree, int rounds, bool skipped,
                                                  const Mark* __restrict__ marks, const real* d,
                                                  real* x) {
#define QUEUE(round)                                                                       \
  queue<2>(ring + (round) % DOWN * 2 * STAGE, marked + (round) % DOWN * STAGE, tree, round, \
           rounds, marks, d, x, x)
#pragma unroll 1
  for (int k = 0; k < DOWN - 1; ++k) QUEUE(k);
  real v = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    copy_async_wait<DOWN - 2>();
    QUEUE(round + DOWN - 1);
#undef QUEUE
    const real* const from = ring + round % DOWN * 2 * STAGE;
    const Mark* const word = marked + round % DOWN * STAGE;
    real f[DEPTH], g[DEPTH];
    Mark mark[DEPTH];
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      f[q] = from[q * THREADS];
      g[q] = from[STAGE + q * THREADS];
      mark[q] = word[q * THREADS];
    }
    const long long first = tree.base + (long long)round * DEPTH * tree.step;
    const int inside = skipped ? 0 : tree.size - round * DEPTH;
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
      const int slot = given_to(mark[q]);
      if (slot >= 0) v = slots[slot * THREADS];
      v = g[q] - f[q] * v;
      if (mark[q]) {
        const int takes = taken(mark[q]), begin = first_taken(mark[q]);
#pragma unroll 1
        for (int k = begin; k < begin + takes; ++k) slots[k * THREADS] = v;
      }
      if (q < inside) x[first + q * tree.step] = v;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) ring(
    const long long* __restrict__ bases, const long long* __restrict__ sizes,
    const Mark* __restrict__ marks, const real* __restrict__ diagonal,
    const real* __restrict__ u, const real* __restrict__ rhs, real* d, real* x, const int trees,
    const int stride) {
  const int number = blockIdx.x * THREADS + threadIdx.x;
  const bool there = number < trees;
  const Tree tree = {there ? bases[number] : 0, stride, there ? (int)sizes[number] : 0};
  const bool skipped = tree.size && diagonal[tree.base] == 0;
  int longest = tree.size;
#pragma unroll
  for (int k = THREADS / 2; k; k >>= 1) {
    const int other = __shfl_xor_sync(EVERY, longest, k);
    longest = other > longest ? other : longest;
  }
  const int rounds = (longest + DEPTH - 1) / DEPTH;
  real* const own = (real*)chip;
  const Slots slots = {own + threadIdx.x, own + SLOTS * THREADS + threadIdx.x};
  real* const stages = own + 2 * SLOTS * THREADS;
  Mark* const marked_up = (Mark*)(stages + 3 * UP * STAGE) + threadIdx.x;
  Mark* const marked_down = (Mark*)(stages + 2 * DOWN * STAGE) + threadIdx.x;
  real* const ring = stages + threadIdx.x;
  eliminate(ring, marked_up, slots, tree, rounds, marks, diagonal, u, rhs, d, x);
  copy_async_wait<0>();
  // The root depends on no other node.
  if (tree.size) d[tree.base] = 0;
  __threadfence_block();
  substitute(ring, marked_down, slots.r, tree, rounds, skipped, marks, d, x);
  copy_async_wait<0>();
  if (skipped)
    for (int i = 0; i < tree.size; ++i) {
      const long long at = tree.base + i * tree.step;
      x[at] = rhs[at];
    }
}
