// Moves `count` elements of `pieces` words each: target[put[i]] = source[take[i]].
//
// `take` or `put` may be left out (DENSE), and then stands for i itself: a gather has `take`, a
// scatter has `put`. Indices are valid, or below zero where an element is left out (MASKED).
// A batch is moved by the same indices; its members lie `source_step` and `target_step` words
// apart.

template <typename Word> __device__ __forceinline__ void keep(Word *at, const Word value, bool once) {
  if (once) __stcs(at, value);
  else *at = value;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define CACHE_HINTS 1
__device__ __forceinline__ unsigned long long stays_last() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ unsigned hinted(const unsigned *at, const unsigned long long policy) {
  unsigned v;
  asm("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(at), "l"(policy));
  return v;
}
__device__ __forceinline__ uint2 hinted(const uint2 *at, const unsigned long long policy) {
  uint2 v;
  asm("ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"
      : "=r"(v.x), "=r"(v.y)
      : "l"(at), "l"(policy));
  return v;
}
__device__ __forceinline__ uint4 hinted(const uint4 *at, const unsigned long long policy) {
  uint4 v;
  asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(at), "l"(policy));
  return v;
}
#endif

// Reads what an index names. Where it is KEPT, memory near it is read soon, and stays in the
// device's cache longer than what is read or written once.
template <bool KEPT, typename Word> struct Fetch {
#ifdef CACHE_HINTS
  unsigned long long policy;
  __device__ __forceinline__ Fetch() : policy(0) {
    if constexpr (KEPT) policy = stays_last();
  }
  __device__ __forceinline__ Word operator()(const Word *at) const {
    if constexpr (KEPT) return hinted(at, policy);
    else return __ldg(at);
  }
#else
  __device__ __forceinline__ Word operator()(const Word *at) const { return __ldg(at); }
#endif
};

template <typename Number> struct Unsigned;
template <> struct Unsigned<int> { typedef unsigned type; };
template <> struct Unsigned<long long> { typedef unsigned long long type; };

// Neither is below zero, and so division by a constant power of two is a shift.
template <typename Number>
__device__ __forceinline__ Number quotient(const Number a, const Number b) {
  typedef typename Unsigned<Number>::type U;
  return (Number)((U)a / (U)b);
}

// The words that piece `p` of the flat transfer is read from and written to; false where it is
// left out. `Offset` is wide enough for every word of one member.
template <typename Index, typename Offset, bool MASKED>
__device__ __forceinline__ bool located(const Offset p, const Offset pieces, const Index *take,
                                        const Index *put, Offset &from, Offset &to) {
  const Offset element = quotient(p, pieces);
  const Offset part = p - element * pieces;
  const Offset s = take ? (Offset)__ldg(take + element) : element;
  const Offset t = put ? (Offset)__ldg(put + element) : element;
  if (MASKED && (s < 0 || t < 0)) return false;
  from = s * pieces + part;
  to = t * pieces + part;
  return true;
}

// Every thread moves FLIGHT pieces, all of which are read before the first is written.
template <typename Word, typename Index, typename Offset, bool TAKE, bool PUT, bool MASKED,
          bool KEPT, int FLIGHT, int PIECES, int THREADS>
__device__ __forceinline__ void
transfer(const Word *__restrict__ source, Word *__restrict__ target,
         const Index *__restrict__ take, const Index *__restrict__ put,
         const long long source_step, const long long target_step, const long long count) {
  const Offset pieces = PIECES, total = (Offset)count * pieces;
  const int threads = THREADS;
  source += blockIdx.y * source_step;
  target += blockIdx.y * target_step;
  const Fetch<KEPT, Word> fetch;
  const Offset first = (Offset)blockIdx.x * (FLIGHT * threads) + threadIdx.x;
  Offset from[FLIGHT], to[FLIGHT];
  bool moved[FLIGHT];
  Word held[FLIGHT];
  // Most blocks have a piece for every thread: without a test on each, their reads go together.
  if (!MASKED && ((Offset)blockIdx.x + 1) * (FLIGHT * threads) <= total) {
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q)
      located<Index, Offset, MASKED>(first + q * threads, pieces, TAKE ? take : nullptr,
                                     PUT ? put : nullptr, from[q], to[q]);
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q) held[q] = fetch(source + from[q]);
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q) keep(target + to[q], held[q], !PUT);
    return;
  }
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q) {
    const Offset p = first + q * threads;
    moved[q] = p < total && located<Index, Offset, MASKED>(p, pieces, TAKE ? take : nullptr,
                                                           PUT ? put : nullptr, from[q], to[q]);
  }
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q)
    if (moved[q]) held[q] = fetch(source + from[q]);
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q)
    if (moved[q]) keep(target + to[q], held[q], !PUT);
}
