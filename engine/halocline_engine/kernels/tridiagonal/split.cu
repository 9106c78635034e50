// Interleaved systems of ROWS rows: PIECES threads a system, each with ROWS_A_PIECE rows of it.
//
// A block has WIDTH neighbouring systems, a thread NEIGHBOURS of them. It loads all its rows at once,
// the first STAGED of them into shared memory and the others into registers, and eliminates them
// until each depends on the last unknown of the piece before and on the unknown behind it. The last
// unknowns of a system's pieces are found by cyclic reduction in shuffles, which needs them in one
// warp: they change places through shared memory. Rows beyond the end are those of a unit matrix.
// Where a processor has one such block, nothing is loaded while it computes, so instructions count.
//
// Constants: REAL, ROWS, PIECES, LANES (the power of two that holds PIECES), ROWS_A_PIECE, STAGED,
// WIDTH, NEIGHBOURS (a divisor of WIDTH; `inner` and all addresses are multiples of so many
// elements), THREADS = PIECES * WIDTH / NEIGHBOURS, BLOCKS (that run at once).
#include "elements.cu"
#include "cooperation.cu"

#define R ROWS_A_PIECE
#define OPEN (R - STAGED)
// Whether the r-th row of some piece is beyond the end.
#define PARTIAL(r) ((PIECES - 1) * R + (r) >= ROWS)
// Elements from one piece to the next where they change places: an odd number.
#define PITCH (WIDTH | 1)
#define TABLE (PIECES * PITCH)
#define COLUMNS (WIDTH / NEIGHBOURS)

// A row of neighbouring systems, as it is moved.
struct alignas(NEIGHBOURS * sizeof(real)) Some {
  real of[NEIGHBOURS];
};

// The reciprocal; float32's hardware one and a step of Newton's take a third of a division's
// instructions, and these are what float32 waits for. Multiplying by a quarter keeps the reciprocals
// of the largest numbers, which the hardware's would take for zero; that of one below 2^-124 is not
// finite.
static __device__ __forceinline__ double inverse(double v) { return 1 / v; }
static __device__ __forceinline__ float inverse(float v) {
#ifdef __CUDACC__
  float w;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(0.25f * v));
  w *= 0.25f;
  return mad(w, mad(-v, w, 1.0f), w);
#else
  return 1 / v;
#endif
}

// What is wrong, as bits. Which is least or most is one instruction with float32 and several with
// float64, where a comparison is one. A NaN is neither.
struct Faults32 {
  float least, excess;
  __device__ __forceinline__ void look(float a, float b, float c) {
    least = fminf(least, absolute(b));
    excess = fmaxf(excess, absolute(a) + absolute(c) - absolute(b));
  }
  __device__ __forceinline__ int found() const {
    return (least == 0 ? 1 : 0) | (excess > 0 ? 2 : 0);
  }
};
struct Faults64 {
  int bits;
  __device__ __forceinline__ void look(double a, double b, double c) {
    if (b == 0) bits |= 1;
    if (absolute(b) < absolute(a) + absolute(c)) bits |= 2;
  }
  __device__ __forceinline__ int found() const { return bits; }
};
template <int SIZE> struct FaultsOf;
template <> struct FaultsOf<4> {
  typedef Faults32 type;
  static __device__ __forceinline__ Faults32 none() { return {1, 0}; }
};
template <> struct FaultsOf<8> {
  typedef Faults64 type;
  static __device__ __forceinline__ Faults64 none() { return {0}; }
};
typedef FaultsOf<sizeof(real)> Faults;

// The last row that was eliminated, x[r] + a x[before] + c x[r+1] = d; the first unknown of the
// piece, p - q x[before] - s x[r+1]; and what is wrong: `given` is not 0 where a diagonal is not
// finite. Whatever else is not makes an unknown that is not, but a diagonal may make a 0 of it.
struct State {
  real a, c, d, p, q, s, given;
  Faults::type faults;
};

static __device__ __forceinline__ void eliminate(State& now, int r, real& a, real b, real& c,
                                                 real& d) {
  now.faults.look(a, b, c);
  now.given = mad(b, 0, now.given);
  const real low = a, w = inverse(r ? mad(-low, now.c, b) : b);
  a = r ? -low * now.a * w : low * w;
  c = c * w;
  d = (r ? mad(-low, now.d, d) : d) * w;
  now.a = a;
  now.c = c;
  now.d = d;
  if (R == 1) return;
  if (r == 0) {
    now.p = d;
    now.q = a;
    now.s = c;
  } else if (r < R - 1) {
    now.p = mad(-now.s, d, now.p);
    now.q = mad(-now.s, a, now.q);
    now.s = -now.s * c;
  }
}

// The last unknowns of the pieces of all systems of a block, from `table` into its first part.
static __device__ __forceinline__ void join(real* table) {
  constexpr int AT_ONCE = THREADS / LANES;
  const int piece = threadIdx.x % LANES;
#pragma unroll
  for (int turn = 0; turn < (WIDTH + AT_ONCE - 1) / AT_ONCE; ++turn) {
    const int system = turn * AT_ONCE + threadIdx.x / LANES;
    const bool there = piece < PIECES && system < WIDTH;
    real* const at = table + piece * PITCH + system;
    real a = there ? at[0] : real(0), c = there ? at[TABLE] : real(0);
    real d = there ? at[2 * TABLE] : real(0);
    const bool next = there && piece < PIECES - 1;
    const real np = next ? at[3 * TABLE + PITCH] : real(0);
    const real nq = next ? at[4 * TABLE + PITCH] : real(0);
    const real ns = next ? at[5 * TABLE + PITCH] : real(0);
    real w = inverse(mad(-c, nq, real(1)));
    a = a * w;
    d = mad(-c, np, d) * w;
    c = -c * ns * w;
    // `a` is 0 at the first piece and `c` at the last; that stays so where the distance grows.
#pragma unroll
    for (int k = 1; k < LANES; k <<= 1) {
      const real ua = __shfl_up_sync(EVERY, a, k, LANES), uc = __shfl_up_sync(EVERY, c, k, LANES);
      const real ud = __shfl_up_sync(EVERY, d, k, LANES);
      const real da = __shfl_down_sync(EVERY, a, k, LANES);
      const real dc = __shfl_down_sync(EVERY, c, k, LANES);
      const real dd = __shfl_down_sync(EVERY, d, k, LANES);
      w = inverse(mad(-a, uc, mad(-c, da, real(1))));
      d = mad(-a, ud, mad(-c, dd, d)) * w;
      a = -a * ua * w;
      c = -c * dc * w;
    }
    // No other thread looks at this place.
    if (there) at[0] = d;
  }
}

// The element `rows` rows behind another one: one wide multiplication, whose product all threads
// have in common.
static __device__ __forceinline__ const Some* behind(const real* from, int rows, int step) {
#ifdef __CUDACC__
  const Some* to;
  asm("mad.wide.s32 %0, %1, %2, %3;"
      : "=l"(to)
      : "r"(step), "r"(rows * (int)sizeof(real)), "l"(from));
  __builtin_assume(__isGlobal(to));
  return to;
#else
  return (const Some*)(from + (long long)rows * step);
#endif
}

#ifdef __CUDACC__
template <int SIZE> struct WordOf;
template <> struct WordOf<4> { typedef unsigned type; };
template <> struct WordOf<8> { typedef uint2 type; };
template <> struct WordOf<16> { typedef uint4 type; };
#endif
// A load of what no thread writes, which the device has a faster way for.
static __device__ __forceinline__ Some fetch(const Some* from) {
#ifdef __CUDACC__
  typedef WordOf<sizeof(Some)>::type Word;
  const Word word = __ldg(reinterpret_cast<const Word*>(from));
  Some some;
  memcpy(&some, &word, sizeof(Some));
  return some;
#else
  return *from;
#endif
}

static __device__ __forceinline__ Some each(real value) {
  Some some;
#pragma unroll
  for (int n = 0; n < NEIGHBOURS; ++n) some.of[n] = value;
  return some;
}

// Whether the r-th row of the piece that begins with `row` is one of the system.
#define INSIDE(r) (!PARTIAL(r) || row + (r) < ROWS)

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) split(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* __restrict__ X, unsigned char* __restrict__ status,
    const long long systems, const int inner) {
  real* const table = (real*)chip;
  int* const flags = (int*)(table + (6 * TABLE + 3) / 4 * 4);
  Some* const stage = (Some*)(flags + (WIDTH + 3) / 4 * 4) + threadIdx.x;
  const int column = threadIdx.x % COLUMNS * NEIGHBOURS, piece = threadIdx.x / COLUMNS;
  const long long system = (long long)blockIdx.x * WIDTH + column;
  // Threads beyond the end do what the last one does, and store nothing.
  const bool there = system < systems;
  const long long known = there ? system : systems - NEIGHBOURS;
  const long long outer = systems <= 0x7fffffff ? (unsigned)known / (unsigned)inner : known / inner;
  const int row = piece * R;
  const long long first = (outer * ROWS + row) * inner + (known - outer * inner);
  const real *pa = A + first, *pb = B + first, *pc = C + first, *pd = D + first;
#pragma unroll
  for (int r = 0; r < STAGED; ++r) {
    Some* const slot = stage + r * 4 * THREADS;
    if (INSIDE(r)) {
      copy_async(slot, behind(pa, r, inner));
      copy_async(slot + THREADS, behind(pb, r, inner));
      copy_async(slot + 2 * THREADS, behind(pc, r, inner));
      copy_async(slot + 3 * THREADS, behind(pd, r, inner));
    } else {
      slot[0] = slot[2 * THREADS] = slot[3 * THREADS] = each(0);
      slot[THREADS] = each(1);
    }
  }
  Some a[OPEN + 1], b[OPEN + 1], c[OPEN + 1], d[OPEN + 1];
#pragma unroll
  for (int r = STAGED; r < R; ++r) {
    const int o = r - STAGED;
    if (INSIDE(r)) {
      a[o] = fetch(behind(pa, r, inner));
      b[o] = fetch(behind(pb, r, inner));
      c[o] = fetch(behind(pc, r, inner));
      d[o] = fetch(behind(pd, r, inner));
    } else {
      a[o] = c[o] = d[o] = each(0);
      b[o] = each(1);
    }
  }
  if (piece == 0) {
#pragma unroll
    for (int n = 0; n < NEIGHBOURS; ++n) flags[column + n] = 0;
  }
  __syncthreads();

  State now[NEIGHBOURS];
#pragma unroll
  for (int n = 0; n < NEIGHBOURS; ++n) now[n] = {0, 0, 0, 0, 0, -1, 0, Faults::none()};
  if (STAGED) copy_async_wait_all();
#pragma unroll
  for (int r = 0; r < STAGED; ++r) {
    Some* const slot = stage + r * 4 * THREADS;
    Some sa = slot[0], sb = slot[THREADS], sc = slot[2 * THREADS], sd = slot[3 * THREADS];
    if (r == 0 && piece == 0) sa = each(0);
    if (r == (ROWS - 1) % R && piece == (ROWS - 1) / R) sc = each(0);
#pragma unroll
    for (int n = 0; n < NEIGHBOURS; ++n) eliminate(now[n], r, sa.of[n], sb.of[n], sc.of[n], sd.of[n]);
    slot[0] = sa;
    slot[2 * THREADS] = sc;
    slot[3 * THREADS] = sd;
  }
#pragma unroll
  for (int r = STAGED; r < R; ++r) {
    const int o = r - STAGED;
    if (r == 0 && piece == 0) a[o] = each(0);
    if (r == (ROWS - 1) % R && piece == (ROWS - 1) / R) c[o] = each(0);
#pragma unroll
    for (int n = 0; n < NEIGHBOURS; ++n)
      eliminate(now[n], r, a[o].of[n], b[o].of[n], c[o].of[n], d[o].of[n]);
  }
  real* const own = table + piece * PITCH + column;
#pragma unroll
  for (int n = 0; n < NEIGHBOURS; ++n) {
    own[n] = now[n].a;
    own[n + TABLE] = now[n].c;
    own[n + 2 * TABLE] = now[n].d;
    own[n + 3 * TABLE] = now[n].p;
    own[n + 4 * TABLE] = now[n].q;
    own[n + 5 * TABLE] = now[n].s;
    const int bad = now[n].faults.found() | (now[n].given == 0 ? 0 : 4);
    if (bad) atomicOr(flags + column + n, bad);
  }
  __syncthreads();
  join(table);
  __syncthreads();
  real before[NEIGHBOURS], solved[NEIGHBOURS];
  Some x;
#pragma unroll
  for (int n = 0; n < NEIGHBOURS; ++n) {
    before[n] = piece ? own[n - PITCH] : real(0);
    x.of[n] = own[n];
    solved[n] = mad(x.of[n], 0, real(0));
  }
  real* const to = X + first;
#pragma unroll
  for (int r = R - 1; r >= 0; --r) {
    if (r < R - 1) {
      const Some* const slot = stage + r * 4 * THREADS;
      const int o = r >= STAGED ? r - STAGED : 0;
      const Some ra = r >= STAGED ? a[o] : slot[0], rc = r >= STAGED ? c[o] : slot[2 * THREADS];
      const Some rd = r >= STAGED ? d[o] : slot[3 * THREADS];
#pragma unroll
      for (int n = 0; n < NEIGHBOURS; ++n) {
        x.of[n] = mad(-rc.of[n], x.of[n], mad(-ra.of[n], before[n], rd.of[n]));
        solved[n] = mad(x.of[n], 0, solved[n]);
      }
    }
    if (there && INSIDE(r)) *const_cast<Some*>(behind(to, r, inner)) = x;
  }
  bool failed = false;
#pragma unroll
  for (int n = 0; n < NEIGHBOURS; ++n) {
    if (solved[n] == 0) continue;
    failed = true;
    atomicOr(flags + column + n, 8);
  }
  if (__syncthreads_or(failed)) {
    // Whether it was given: every coefficient that is not finite, other than on the diagonal, makes
    // an unknown that is not.
#pragma unroll 1
    for (int r = 0; r < R && row + r < ROWS; ++r) {
      const long long at = (long long)r * inner;
      for (int n = 0; n < NEIGHBOURS; ++n) {
        const real ga = row + r > 0 ? pa[at + n] : real(0);
        const real gc = row + r < ROWS - 1 ? pc[at + n] : real(0);
        if (!(mad(ga, 0, mad(gc, 0, pd[at + n] * 0)) == 0)) atomicOr(flags + column + n, 4);
      }
    }
    __syncthreads();
  }
  if (piece == 0 && there) {
#pragma unroll
    for (int n = 0; n < NEIGHBOURS; ++n) {
      const int found = flags[column + n];
      status[system + n] = (unsigned char)(found & 4 ? found & ~8 : found);
    }
  }
}
