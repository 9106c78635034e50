// Interleaved systems of ROWS rows: PIECES threads a system, each with ROWS_A_PIECE rows of it.
//
// A block has WIDTH neighbouring systems. A thread loads all its rows at once, the first STAGED of
// them into shared memory and the others into registers, and eliminates them until each depends on
// the last unknown of the piece before and on the unknown behind it. The last unknowns of a
// system's pieces are found by cyclic reduction in shuffles, which needs them in one warp: they
// change places through shared memory. Rows beyond the end are those of a unit matrix.
//
// Constants: REAL, ROWS, PIECES, LANES (the power of two that holds PIECES), ROWS_A_PIECE, STAGED,
// WIDTH, THREADS = PIECES * WIDTH, BLOCKS (that run at once).
typedef REAL real;
extern __shared__ __align__(16) unsigned char chip[];

#define R ROWS_A_PIECE
#define OPEN (R - STAGED)
#define EVERY 0xffffffffu
// Whether the r-th row of some piece is beyond the end.
#define PARTIAL(r) ((PIECES - 1) * R + (r) >= ROWS)
// Elements from one piece to the next where they change places: an odd number.
#define PITCH (WIDTH | 1)
#define TABLE (PIECES * PITCH)

#ifdef __CUDACC__
// Asynchronous where the device has that.
static __device__ __forceinline__ void copy_async(real* into, const real* from) {
#if __CUDA_ARCH__ < 800
  *into = *from;
#else
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)),
               "l"(from), "n"((int)sizeof(real))
               : "memory");
#endif
}
static __device__ __forceinline__ void copy_async_wait_all() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif

static __device__ __forceinline__ double mad(double x, double y, double z) {
  return __fma_rn(x, y, z);
}
static __device__ __forceinline__ float mad(float x, float y, float z) { return __fmaf_rn(x, y, z); }
static __device__ __forceinline__ float absolute(float v) { return fabsf(v); }
static __device__ __forceinline__ double absolute(double v) { return fabs(v); }
// The reciprocal; float32's hardware one and a step of Newton's take half of a division's
// instructions, and these are what float32 waits for.
static __device__ __forceinline__ double inverse(double v) { return 1 / v; }
static __device__ __forceinline__ float inverse(float v) {
#ifdef __CUDACC__
  float w;
  asm("rcp.approx.f32 %0, %1;" : "=f"(w) : "f"(v));
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
// piece, p - q x[before] - s x[r+1]; and what is wrong.
struct State {
  real a, c, d, p, q, s, given;
  Faults::type faults;
};

static __device__ __forceinline__ void eliminate(State& now, int r, real& a, real b, real& c,
                                                 real& d) {
  now.faults.look(a, b, c);
  now.given = mad(a, 0, mad(b, 0, mad(c, 0, mad(d, 0, now.given))));
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) split(
    const real* __restrict__ A, const real* __restrict__ B, const real* __restrict__ C,
    const real* __restrict__ D, real* __restrict__ X, unsigned char* __restrict__ status,
    const long long systems, const int inner) {
  real* const table = (real*)chip;
  int* const flags = (int*)(table + 6 * TABLE);
  real* const stage = (real*)(flags + (WIDTH + 3) / 4 * 4) + threadIdx.x;
  const int column = threadIdx.x % WIDTH, piece = threadIdx.x / WIDTH;
  const long long system = (long long)blockIdx.x * WIDTH + column;
  const bool there = system < systems;
  const long long outer = there ? system / inner : 0;
  const long long step = inner;
  const int row = piece * R;
  const long long first = (outer * ROWS + row) * step + (system - outer * step);
  const real *pa = A + first, *pb = B + first, *pc = C + first, *pd = D + first;
#pragma unroll
  for (int r = 0; r < STAGED; ++r) {
    real* const slot = stage + r * 4 * THREADS;
    if (there && (!PARTIAL(r) || row + r < ROWS)) {
      copy_async(slot, pa + r * step);
      copy_async(slot + THREADS, pb + r * step);
      copy_async(slot + 2 * THREADS, pc + r * step);
      copy_async(slot + 3 * THREADS, pd + r * step);
    } else {
      slot[0] = slot[2 * THREADS] = slot[3 * THREADS] = 0;
      slot[THREADS] = 1;
    }
  }
  real a[OPEN + 1], b[OPEN + 1], c[OPEN + 1], d[OPEN + 1];
#pragma unroll
  for (int r = STAGED; r < R; ++r) {
    const bool inside = there && (!PARTIAL(r) || row + r < ROWS);
    a[r - STAGED] = inside ? pa[r * step] : real(0);
    b[r - STAGED] = inside ? pb[r * step] : real(1);
    c[r - STAGED] = inside ? pc[r * step] : real(0);
    d[r - STAGED] = inside ? pd[r * step] : real(0);
  }
  if (piece == 0) flags[column] = 0;
  __syncthreads();

  State now = {0, 0, 0, 0, 0, -1, 0, Faults::none()};
  if (STAGED) copy_async_wait_all();
#pragma unroll
  for (int r = 0; r < STAGED; ++r) {
    real* const slot = stage + r * 4 * THREADS;
    real sa = slot[0], sb = slot[THREADS], sc = slot[2 * THREADS], sd = slot[3 * THREADS];
    if (r == 0 && piece == 0) sa = 0;
    if (r == (ROWS - 1) % R && piece == (ROWS - 1) / R) sc = 0;
    eliminate(now, r, sa, sb, sc, sd);
    slot[0] = sa;
    slot[2 * THREADS] = sc;
    slot[3 * THREADS] = sd;
  }
#pragma unroll
  for (int r = STAGED; r < R; ++r) {
    if (r == 0 && piece == 0) a[r - STAGED] = 0;
    if (r == (ROWS - 1) % R && piece == (ROWS - 1) / R) c[r - STAGED] = 0;
    eliminate(now, r, a[r - STAGED], b[r - STAGED], c[r - STAGED], d[r - STAGED]);
  }
  real* const own = table + piece * PITCH + column;
  own[0] = now.a;
  own[TABLE] = now.c;
  own[2 * TABLE] = now.d;
  own[3 * TABLE] = now.p;
  own[4 * TABLE] = now.q;
  own[5 * TABLE] = now.s;
  const int bad = now.faults.found() | (now.given == 0 ? 0 : 4);
  if (bad) atomicOr(flags + column, bad);
  __syncthreads();
  join(table);
  __syncthreads();
  const real before = piece ? own[-PITCH] : real(0);
  real x = own[0], solved = mad(x, 0, real(0));
  real* const to = X + first;
#pragma unroll
  for (int r = R - 1; r >= 0; --r) {
    if (r < R - 1) {
      if (r >= STAGED) {
        x = mad(-c[r - STAGED], x, mad(-a[r - STAGED], before, d[r - STAGED]));
      } else {
        const real* const slot = stage + r * 4 * THREADS;
        x = mad(-slot[2 * THREADS], x, mad(-slot[0], before, slot[3 * THREADS]));
      }
      solved = mad(x, 0, solved);
    }
    if (there && (!PARTIAL(r) || row + r < ROWS)) to[r * step] = x;
  }
  if (!(solved == 0)) atomicOr(flags + column, 8);
  __syncthreads();
  if (piece == 0 && there) {
    const int all = flags[column];
    status[system] = (unsigned char)(all & 4 ? all & ~8 : all);
  }
}
