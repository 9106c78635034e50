// Trees of the same shape: a thread a tree; what the sweeps hand on stays on the chip, or near.
//
// Constants: REAL, NODES, DEPTH (nodes of a round), AWAY (rounds whose nodes are kept away, even),
// EXTRA (places beside those of the nodes), LISTED, LATE, THREADS, LEAD (rounds that are announced
// ahead), GRAIN (bytes that one announcement is for), FETCH (nodes that come back at a time), WIDTH
// (the threads of a warp).
//
// Trees are interleaved, WIDTH of them side by side. Blocks are as many as run at once, and take
// one tree after the other. Nodes are loaded in rounds, from the last node on, each round while the
// one before it is eliminated, LEAD rounds after it was announced to the cache that all processors
// share; missing nodes of the first round change nothing. Of each node two elements are kept for
// the way down: those of the first AWAY rounds in memory of the block, which is written again for
// every tree and so stays in that cache, the others on the chip. What a node gives to the one
// before it stays in registers; what it gives to another parent waits in a free place on the chip.
//
// `table` has a word for each node in the order of elimination, one for each node from the root on,
// one for each round, and LISTED ones; see `shape.py`. On the way up: bit 0, the node gives to
// another parent than the node before; bits 4 to 17 and 18 to 31, the place that it takes from and
// the one that it gives to, in units of 16 bytes. It takes from a place of zeros where nothing
// waits. On the way down: bit 0, it asks for its parent's value; bit 1, it tells its own; where
// they are. A round: where its list begins, and 16 bits for how many words that has, each a place
// that a node takes from before the one in its own word, and the node's number in its round. What
// is in a list waits when the round begins, unless LATE.
// Compulsory traffic: four elements a node.
typedef REAL real;
typedef unsigned int Word;
extern __shared__ __align__(16) unsigned char chip[];

#define ROUNDS ((NODES + DEPTH - 1) / DEPTH)
#define PADDED (ROUNDS * DEPTH)
#define HELD (ROUNDS - AWAY)
// Nodes from this one on are kept away.
#define FIRST (HELD * DEPTH)
#define PLACES (FIRST + EXTRA)
#define HEADS (2 * PADDED)
#define LISTS (HEADS + ROUNDS)
#define WORDS (LISTS + LISTED)
#define EDGE (NODES % DEPTH != 0)
#define SELDOM(condition) __builtin_expect((condition) ? 1 : 0, 0)

struct __align__(2 * sizeof(real)) Pair {
  real x, y;
};

struct Round {
  real d[DEPTH], u[DEPTH], r[DEPTH];
};

// Where a tree's nodes are, WIDTH elements from one to the next.
struct Tree {
  const real *d, *u, *r;
  real* x;
};

#ifdef __CUDACC__
typedef unsigned long long Policy;

// What is kept away should stay in the cache; what passes once should not push it out. Where
// nothing is away, hints only cost.
static __device__ __forceinline__ Policy keeping() {
  Policy made;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(made));
  return made;
}
static __device__ __forceinline__ Policy passing() {
  Policy made;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(made));
  return made;
}
static __device__ __forceinline__ double load(const double* from, Policy policy) {
  if (!AWAY) return __ldg(from);
  double v;
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.f64 %0, [%1], %2;"
      : "=d"(v)
      : "l"(from), "l"(policy));
  return v;
}
static __device__ __forceinline__ float load(const float* from, Policy policy) {
  if (!AWAY) return __ldg(from);
  float v;
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;"
      : "=f"(v)
      : "l"(from), "l"(policy));
  return v;
}
static __device__ __forceinline__ void store(double* to, double v, Policy policy) {
  if (AWAY)
    asm volatile("st.global.L2::cache_hint.f64 [%0], %1, %2;" ::"l"(to), "d"(v), "l"(policy));
  else
    *to = v;
}
static __device__ __forceinline__ void store(float* to, float v, Policy policy) {
  if (AWAY)
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(v), "l"(policy));
  else
    *to = v;
}
static __device__ __forceinline__ void put(double* to, double x, double y, Policy policy) {
  asm volatile("st.global.L2::cache_hint.v2.f64 [%0], {%1, %2}, %3;" ::"l"(to), "d"(x), "d"(y),
               "l"(policy));
}
static __device__ __forceinline__ void put(float* to, float x, float y, Policy policy) {
  asm volatile("st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;" ::"l"(to), "f"(x), "f"(y),
               "l"(policy));
}
static __device__ __forceinline__ void get(double& x, double& y, const double* from,
                                           Policy policy) {
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v2.f64 {%0, %1}, [%2], %3;"
               : "=d"(x), "=d"(y)
               : "l"(from), "l"(policy));
}
static __device__ __forceinline__ void get(float& x, float& y, const float* from, Policy policy) {
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v2.f32 {%0, %1}, [%2], %3;"
               : "=f"(x), "=f"(y)
               : "l"(from), "l"(policy));
}

static __device__ __forceinline__ void announce(const real* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// The reciprocal, rounded once: what a division is compiled to without the branch to its special
// cases. Where these are among the numbers, `least` ends below what `usual` asks for.
static __device__ __forceinline__ double inverse(double d, Word& least) {
  const Word high = __double2hiint(d), magnitude = 2 * high + 0x600804u;
  least = magnitude < least ? magnitude : least;
  double w;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(w) : "d"(d));
  w = __hiloint2double(__double2hiint(w), high + 0x300402u);
  double e = __fma_rn(-d, w, 1.0);
  e = __fma_rn(e, e, e);
  w = __fma_rn(w, e, w);
  e = __fma_rn(-d, w, 1.0);
  return __fma_rn(w, e, w);
}
static __device__ __forceinline__ float inverse(float d, Word& least) {
  const Word magnitude = 2 * (__float_as_uint(d) + 0x1800000u);
  least = magnitude < least ? magnitude : least;
  float w;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(d));
  return __fmaf_rn(w, -__fmaf_rn(d, w, -1.0f), w);
}
static __device__ __forceinline__ bool usual(Word least) {
  return least >= (sizeof(real) == 8 ? 0x800804u : 0x4000000u);
}
#else
typedef int Policy;
static Policy keeping() { return 0; }
static Policy passing() { return 0; }
static real load(const real* from, Policy) { return *from; }
static void store(real* to, real v, Policy) { *to = v; }
static void put(real* to, real x, real y, Policy) { to[0] = x, to[1] = y; }
static void get(real& x, real& y, const real* from, Policy) { x = from[0], y = from[1]; }
static void announce(const real*) {}
static real inverse(real d, Word& least) {
  if (d == 0 || d - d != 0) least = 0;
  return 1 / d;
}
static bool usual(Word least) { return least != 0; }
#endif

static __device__ __forceinline__ Pair& place(unsigned char* column, Word bytes) {
  return *(Pair*)(column + bytes);
}
static __device__ __forceinline__ Word first_of(Word word) { return word & 0x3fff0; }
static __device__ __forceinline__ Word second_of(Word word) { return word >> 14 & 0x3fff0; }

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

static __device__ __forceinline__ Tree tree_of(const real* d, const real* u, const real* r, real* x,
                                               long long number, long long trees) {
  // Threads behind the last tree solve that one as well.
  const long long tree = number < trees ? number : trees - 1;
  const long long at = tree / WIDTH * (WIDTH * NODES) + tree % WIDTH;
  return {d + at, u + at, r + at, x + at};
}

// The nodes of a round from `top` on.
template <bool SOME>
static __device__ __forceinline__ void bring(Round& into, const Tree& tree, int top,
                                             Policy policy) {
  const long long at = (long long)top * WIDTH;
  const real *const d = tree.d + at, *const u = tree.u + at, *const r = tree.r + at;
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    const bool there = !SOME || top - q < NODES;
    into.d[q] = there ? load(d - q * WIDTH, policy) : real(1);
    into.u[q] = there ? load(u - q * WIDTH, policy) : real(0);
    into.r[q] = there ? load(r - q * WIDTH, policy) : real(0);
  }
}

static __device__ __forceinline__ void announce_round(const Tree& tree, int round) {
  if (round >= ROUNDS) return;
  // The nodes of a round of a warp's trees are one piece of memory; each lane announces a part.
  const int lane = threadIdx.x % 32, bytes = DEPTH * WIDTH * (int)sizeof(real);
  const long long at = (long long)(PADDED - (round + 1) * DEPTH) * WIDTH - lane;
#pragma unroll
  for (int part = 0; part < bytes; part += 32 * GRAIN) {
    if (32 * GRAIN <= bytes || lane < bytes / GRAIN) {
      const long long from = at + (part + lane * GRAIN) / (int)sizeof(real);
      announce(tree.d + from);
      announce(tree.u + from);
      announce(tree.r + from);
    }
  }
}

// What the table says of a round, and what waits for its first node, read while the round before it
// is eliminated.
struct Said {
  Word words[DEPTH], head;
  Pair waiting;
};

template <bool FAR>
static __device__ __forceinline__ void eliminate(const Round& nodes, Said& said,
                                                 const Word* table, int round,
                                                 unsigned char* column, real* away, Pair& given,
                                                 Word& least, Policy policy) {
  Word words[DEPTH];
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) words[q] = said.words[q];
  const Word head = said.head;
  const int next = round + 1 < ROUNDS ? round + 1 : 0;
  const Word* listed = table + LISTS + (head & 65535);
  const Word* const end = listed + (head >> 16);
  const int top = PADDED - 1 - round * DEPTH;
  Pair* const own = (Pair*)column + (FAR ? 0 : top) * THREADS;
  real* const far = away + (FAR ? top - FIRST : 0) * 2 * THREADS;
  real d[DEPTH], r[DEPTH];
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
    d[q] = nodes.d[q];
    r[q] = nodes.r[q];
  }
#define TAKE_LISTED(q)                                        \
  for (; listed < end && (int)(*listed & 15) == q; ++listed) {     \
    const Pair taken = place(column, first_of(*listed));      \
    d[q] -= taken.x;                                          \
    r[q] -= taken.y;                                          \
  }
#if !LATE
  if (SELDOM(head)) {
#pragma unroll
    for (int q = 0; q < DEPTH; ++q) {
#pragma unroll 1
      TAKE_LISTED(q)
    }
  }
#endif
  Pair waiting = said.waiting;
#pragma unroll
  for (int q = 0; q < DEPTH; ++q) {
#if LATE
    if (SELDOM(head)) {
#pragma unroll 1
      TAKE_LISTED(q)
    }
#endif
    d[q] = d[q] - waiting.x - given.x;
    r[q] = r[q] - waiting.y - given.y;
    // What the next node takes has waited since the node before this one, or longer.
    if (q == DEPTH / 2) {
      words_at(said.words, table + next * DEPTH);
      said.head = table[HEADS + next];
    }
    waiting = place(column, first_of(q + 1 < DEPTH ? words[(q + 1) % DEPTH] : said.words[0]));
    if (q + 1 == DEPTH) said.waiting = waiting;
    const real w = inverse(d[q], least);
    const Pair kept = {nodes.u[q] * w, r[q] * w};
    if (FAR)
      put(far - q * 2 * THREADS, kept.x, kept.y, policy);
    else
      own[-q * THREADS] = kept;
    given.x = kept.x * nodes.u[q];
    given.y = kept.y * nodes.u[q];
    if (words[q] & 1) {
      place(column, second_of(words[q])) = given;
      given.x = given.y = 0;
    }
  }
}

// Find the values of COUNT nodes from `first` on, whose pairs are here.
template <int COUNT, bool SOME>
static __device__ __forceinline__ void descend(const Pair (&pairs)[COUNT], const Word* words,
                                               int first, unsigned char* column, real& v,
                                               const Tree& tree, Policy policy) {
  real* const to = tree.x + (long long)first * WIDTH;
#pragma unroll
  for (int q = 0; q < COUNT; q += 4) {
    const uint4 four = *(const uint4*)(words + first + q);
    const Word own[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      if (own[p] & 1) v = place(column, first_of(own[p])).y;
      v = pairs[q + p].y - pairs[q + p].x * v;
      if (own[p] & 2) place(column, second_of(own[p])).y = v;
      if (!SOME || first + q + p < NODES) store(to + (q + p) * WIDTH, v, policy);
    }
  }
}

#if AWAY
static __device__ __forceinline__ void come_back(Pair (&into)[FETCH], const real* away, int first,
                                                 Policy policy) {
#pragma unroll
  for (int q = 0; q < FETCH; ++q)
    get(into[q].x, into[q].y, away + (first + q) * 2 * THREADS, policy);
}
#endif

// Solve a tree with divisions for all numbers; if its root is zero, its right-hand side is copied.
static __device__ __noinline__ void solve_slowly(const Word* table, const Tree tree,
                                                 unsigned char* column, real* away) {
  if (tree.d[0] == 0) {
#pragma unroll 1
    for (long long node = 0; node < NODES; ++node)
      tree.x[node * WIDTH] = tree.r[node * WIDTH];
    return;
  }
  Pair given = {0, 0};
#pragma unroll 1
  for (int node = NODES - 1; node >= 0; --node) {
    const int turn = PADDED - 1 - node;
    const Word word = table[turn], head = table[HEADS + turn / DEPTH];
    const long long at = (long long)node * WIDTH;
    real d = tree.d[at], r = tree.r[at];
    const real u = tree.u[at];
#pragma unroll 1
    for (Word k = 0; k <= head >> 16; ++k) {
      const bool listed = k < head >> 16;
      const Word from = listed ? table[LISTS + (head & 65535) + k] : word;
      if (listed && (from & 15) != (Word)(turn % DEPTH)) continue;
      const Pair taken = place(column, first_of(from));
      d -= taken.x;
      r -= taken.y;
    }
    d -= given.x;
    r -= given.y;
    const real w = 1 / d;
    const Pair kept = {u * w, r * w};
    real* const to = node < FIRST ? (real*)((Pair*)column + node * THREADS)
                                  : away + (node - FIRST) * 2 * THREADS;
    to[0] = kept.x;
    to[1] = kept.y;
    given.x = kept.x * u;
    given.y = kept.y * u;
    if (word & 1) {
      place(column, second_of(word)) = given;
      given.x = given.y = 0;
    }
  }
  real v = 0;
#pragma unroll 1
  for (int node = 0; node < NODES; ++node) {
    const Word word = table[PADDED + node];
    const real* const from = node < FIRST ? (real*)((Pair*)column + node * THREADS)
                                          : away + (node - FIRST) * 2 * THREADS;
    if (word & 1) v = place(column, first_of(word)).y;
    v = node ? from[1] - from[0] * v : from[1];
    if (word & 2) place(column, second_of(word)).y = v;
    tree.x[(long long)node * WIDTH] = v;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) uniform(
    const Word* __restrict__ table, const real* __restrict__ diagonal,
    const real* __restrict__ u, const real* __restrict__ rhs, real* __restrict__ x,
    real* __restrict__ room, const long long trees) {
  unsigned char* const column = chip + threadIdx.x * sizeof(Pair);
  Word* const held = (Word*)((Pair*)chip + PLACES * THREADS);
  real* const away = room + ((long long)blockIdx.x * (AWAY * DEPTH * THREADS) + threadIdx.x) * 2;
  const Policy keeps = keeping(), passes = passing();
  const long long step = (long long)gridDim.x * THREADS;
  long long number = (long long)blockIdx.x * THREADS + threadIdx.x;
  Tree tree = tree_of(diagonal, u, rhs, x, number, trees);
  Round even, odd;
#define BRING(set, round) bring<false>(set, tree, PADDED - 1 - (round) * DEPTH, passes)
#define ELIMINATE(far, set, round) \
  eliminate<far>(set, said, held, round, column, away, given, least, keeps)
  bring<EDGE>(even, tree, PADDED - 1, passes);
#pragma unroll 1
  for (int round = 1; round <= LEAD; ++round) announce_round(tree, round);
  for (int i = threadIdx.x; i < WORDS; i += THREADS) held[i] = table[i];
  // Where nothing waits.
  ((Pair*)column)[(PLACES - 1) * THREADS] = {0, 0};
  __syncthreads();
  Said said;
  words_at(said.words, held);
  said.head = held[HEADS];
  said.waiting = place(column, first_of(held[0]));
  for (; number - threadIdx.x < trees; number += step) {
    Pair given = {0, 0};
    Word least = ~0u;
#if AWAY
#pragma unroll 1
    for (int round = 0; round < AWAY; round += 2) {
      announce_round(tree, round + 1 + LEAD);
      BRING(odd, round + 1);
      ELIMINATE(true, even, round);
      announce_round(tree, round + 2 + LEAD);
      if (round + 2 < ROUNDS) BRING(even, round + 2);
      ELIMINATE(true, odd, round + 1);
    }
#endif
#pragma unroll 1
    for (int round = AWAY; round + 1 < ROUNDS; round += 2) {
      announce_round(tree, round + 1 + LEAD);
      BRING(odd, round + 1);
      ELIMINATE(false, even, round);
      announce_round(tree, round + 2 + LEAD);
      if (round + 2 < ROUNDS) BRING(even, round + 2);
      ELIMINATE(false, odd, round + 1);
    }
#if HELD % 2
    ELIMINATE(false, even, ROUNDS - 1);
    const real root = even.d[DEPTH - 1];
#else
    const real root = odd.d[DEPTH - 1];
#endif
    const bool well = usual(least) && root != 0;
    const Tree now = tree;
    tree = tree_of(diagonal, u, rhs, x, number + step, trees);
    bring<EDGE>(even, tree, PADDED - 1, passes);
    // The root depends on no other node.
    ((Pair*)column)->x = 0;
    real v = 0;
#if AWAY
    Pair one[FETCH], other[FETCH];
    come_back(one, away, 0, keeps);
    come_back(other, away, FETCH % (AWAY * DEPTH), keeps);
#endif
#pragma unroll 1
    for (int first = 0; first < FIRST; first += DEPTH) {
      Pair pairs[DEPTH];
#pragma unroll
      for (int q = 0; q < DEPTH; ++q) pairs[q] = ((Pair*)column)[(first + q) * THREADS];
      if (first < LEAD * DEPTH) announce_round(tree, 1 + first / DEPTH);
      descend<DEPTH, EDGE && !AWAY>(pairs, held + PADDED, first, column, v, now, passes);
    }
#if AWAY
#pragma unroll 1
    for (int at = 0; at < AWAY * DEPTH; at += 2 * FETCH) {
      descend<FETCH, EDGE>(one, held + PADDED, FIRST + at, column, v, now, passes);
      if (at + 2 * FETCH < AWAY * DEPTH) come_back(one, away, at + 2 * FETCH, keeps);
      if (at + FETCH < AWAY * DEPTH) {
        descend<FETCH, EDGE>(other, held + PADDED, FIRST + at + FETCH, column, v, now, passes);
        if (at + 3 * FETCH < AWAY * DEPTH) come_back(other, away, at + 3 * FETCH, keeps);
      }
    }
#endif
    if (SELDOM(!well)) solve_slowly(held, now, column, away);
  }
}
