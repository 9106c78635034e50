// The two passes of a grouped gather, see grouping.py. Both hold in shared memory what is named in no
// order, and read and write memory in long pieces.

extern __shared__ __align__(128) uint4 passes_room[];

template <typename Word, int PIECES> struct Element {
  Word at[PIECES];
};

// How many elements a thread moves in one piece of 16 bytes; 1 where they do not fill it.
template <typename E> __device__ constexpr int packed() {
  return sizeof(E) == 4 || sizeof(E) == 8 || sizeof(E) == 16 ? 16 / (int)sizeof(E) : 1;
}
template <typename T, int N> struct alignas(N > 1 ? sizeof(T) * N : alignof(T)) Several {
  T at[N];
};

// Writes what is not read soon.
template <typename V> __device__ __forceinline__ void passes_put(V *at, const V &value) {
  if constexpr (sizeof(V) == 16 && alignof(V) == 16) __stcs((uint4 *)at, *(const uint4 *)&value);
  else *at = value;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PASSES_BULK 1
__device__ __forceinline__ unsigned long long passes_leaves_first() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Begins to copy `bytes` bytes, a multiple of 16, and says so to the barrier.
__device__ __forceinline__ void passes_bring(void *into, const void *from, const unsigned bytes,
                                             unsigned long long *barrier) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("{\n .reg .b64 state;\n mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(
                   at),
               "r"(bytes)
               : "memory");
  const unsigned long long policy = passes_leaves_first();
  const unsigned to = (unsigned)__cvta_generic_to_shared(into);
  for (unsigned done = 0; done < bytes; done += 16384)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to + done),
                 "l"((const char *)from + done), "r"(bytes - done < 16384 ? bytes - done : 16384),
                 "r"(at), "l"(policy)
                 : "memory");
}
__device__ __forceinline__ void passes_wait(unsigned long long *barrier) {
  unsigned done = 0;
  while (!done)
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared.b64 p, [%1], 0;\n"
                 " selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"((unsigned)__cvta_generic_to_shared(barrier))
                 : "memory");
}
#endif

// A window of the source, in the order in which the tiles of the target want its elements:
// between[starts[w] + n] = source[w * window + take[starts[w] + n]] for n below counts[w].
template <typename Word, int PIECES, int FLIGHT, int THREADS>
__device__ __forceinline__ void
pass_one(const Word *__restrict__ source, Word *__restrict__ between,
         const unsigned short *__restrict__ take, const long long *__restrict__ starts,
         const int *__restrict__ counts, const long long elements, const int window) {
  typedef Element<Word, PIECES> E;
  constexpr int N = packed<E>();
  typedef Several<unsigned short, N> Places;
  typedef Several<E, N> Values;
  const long long begin = __ldg(starts + blockIdx.x);
  const int count = __ldg(counts + blockIdx.x), me = threadIdx.x;
  if (count == 0) return;
  const Word *const here = source + (long long)blockIdx.x * window * PIECES;
  const long long left = elements - (long long)blockIdx.x * window;
  const int words = (int)(left < window ? left : window) * PIECES;
  const int wide = ((unsigned long long)here & 15) ? 0 : words * (int)sizeof(Word) / 16;
#ifdef PASSES_BULK
  __shared__ unsigned long long barrier;
  if (me == 0) passes_bring(passes_room, here, wide * 16, &barrier);
#else
  for (int n = me; n < wide; n += THREADS) passes_room[n] = ((const uint4 *)here)[n];
#endif
  for (int n = wide * 16 / (int)sizeof(Word) + me; n < words; n += THREADS)
    ((Word *)passes_room)[n] = here[n];
  // Windows begin at whole pieces, and what is between two of them may be overwritten.
  const int packs = (count + N - 1) / N;
  const Places *const places = (const Places *)(take + begin);
  Values *const out = (Values *)((E *)between + begin);
  const E *const held = (const E *)passes_room;
  Places from[FLIGHT];
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q)
    if (me + q * THREADS < packs) from[q] = places[me + q * THREADS];
  __syncthreads();
#ifdef PASSES_BULK
  passes_wait(&barrier);
#endif
  for (int first = me; first < packs; first += FLIGHT * THREADS) {
    Values values[FLIGHT];
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q) {
      if (first + q * THREADS >= packs) continue;
#pragma unroll
      for (int e = 0; e < N; ++e) values[q].at[e] = held[from[q].at[e]];
    }
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q)
      if (first + (FLIGHT + q) * THREADS < packs)
        from[q] = places[first + (FLIGHT + q) * THREADS];
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q)
      if (first + q * THREADS < packs) passes_put(out + first + q * THREADS, values[q]);
  }
}

// Brings one element to shared memory, past the registers of the thread where the device can.
template <bool PAST, typename E> __device__ __forceinline__ void passes_fetch(E *into, const E *from) {
#ifdef __CUDACC__
  if constexpr (PAST && sizeof(E) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(into)),
                 "l"(from)
                 : "memory");
  else if constexpr (PAST)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(into)),
                 "l"(from), "n"((int)sizeof(E))
                 : "memory");
  else
    *into = *from;
#else
  if constexpr (PAST) copy_async(into, from);
  else *into = *from;
#endif
}
template <bool PAST> __device__ __forceinline__ void passes_fetched() {
  if constexpr (!PAST) return;
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  copy_async_wait_all();
#endif
}

// A tile of the target: element n of its list, for n from lists[t] up to lists[t + 1], is
// between[from[n]] and goes to place[n] of the tile.
template <typename Word, int PIECES, typename Offset, bool PAST, int FLIGHT, int THREADS>
__device__ __forceinline__ void
pass_two(const Word *__restrict__ between, Word *__restrict__ target,
         const Offset *__restrict__ from, const unsigned short *__restrict__ place,
         const long long *__restrict__ lists, const long long count, const int tile) {
  typedef Element<Word, PIECES> E;
  constexpr int N = packed<E>();
  typedef Several<E, N> Values;
  const int me = threadIdx.x;
  E *const held = (E *)passes_room;
  const long long first = (long long)blockIdx.x * tile;
  const int here = (int)(count - first < tile ? count - first : tile);
  const long long list = __ldg(lists + blockIdx.x);
  const int total = (int)(__ldg(lists + blockIdx.x + 1) - list);
  E *const out = (E *)target + first;
  // Some elements are left out, and keep what the target has.
  if (total < here) {
    for (int n = me; n < here; n += THREADS) held[n] = out[n];
    __syncthreads();
  }
  Offset next[FLIGHT];
  int goes[FLIGHT];
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q) {
    const int n = me + q * THREADS;
    if (n >= total) continue;
    next[q] = __ldcs(from + list + n);
    goes[q] = __ldcs(place + list + n);
  }
  for (int base = me; base < total; base += FLIGHT * THREADS) {
    Offset at[FLIGHT];
    int to[FLIGHT];
#pragma unroll
    for (int q = 0; q < FLIGHT; ++q) {
      at[q] = next[q];
      to[q] = goes[q];
      const int n = base + (FLIGHT + q) * THREADS;
      if (n >= total) continue;
      next[q] = __ldcs(from + list + n);
      goes[q] = __ldcs(place + list + n);
    }
    if constexpr (PAST) {
#pragma unroll
      for (int q = 0; q < FLIGHT; ++q)
        if (base + q * THREADS < total)
          passes_fetch<PAST>((Word *)(held + to[q]), (const Word *)((const E *)between + at[q]));
    } else {
      E values[FLIGHT];
#pragma unroll
      for (int q = 0; q < FLIGHT; ++q)
        if (base + q * THREADS < total) values[q] = ((const E *)between)[at[q]];
#pragma unroll
      for (int q = 0; q < FLIGHT; ++q)
        if (base + q * THREADS < total) held[to[q]] = values[q];
    }
  }
  passes_fetched<PAST>();
  __syncthreads();
  const int packs = ((unsigned long long)out & 15) ? 0 : here / N;
#pragma unroll 4
  for (int n = me; n < packs; n += THREADS)
    passes_put((Values *)out + n, ((const Values *)held)[n]);
  for (int n = packs * N + me; n < here; n += THREADS) out[n] = held[n];
}
