// Gathers of elements of one word of 4 or 8 bytes into dense memory: a thread takes as many
// successive elements as fill 16 bytes, so that their indices come, and they go, in one piece.
// Where addresses or the end do not allow that, they go one by one.

template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

template <typename Word, typename Index, typename Offset, bool MASKED, bool KEPT, int FLIGHT,
          long long COUNT, int THREADS>
__device__ __forceinline__ void
transfer_packed(const Word *__restrict__ source, Word *__restrict__ target,
                const Index *__restrict__ take, const long long source_step,
                const long long target_step, const long long count_given) {
  constexpr int N = 16 / (int)sizeof(Word);
  typedef Pack<Index, N> Indices;
  typedef Pack<Word, N> Words;
  const Offset count = either<COUNT>((Offset)count_given);
  const int threads = either<THREADS>((int)blockDim.x);
  source += blockIdx.y * source_step;
  target += blockIdx.y * target_step;
  const bool even = ((unsigned long long)target & 15) == 0 &&
                    ((unsigned long long)take & (alignof(Indices) - 1)) == 0;
  const Offset first = ((Offset)blockIdx.x * (FLIGHT * threads) + threadIdx.x) * N;
  const Fetch<KEPT, Word> fetch;
  Indices from[FLIGHT];
  Words held[FLIGHT];
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q) {
    const Offset e = first + (Offset)q * threads * N;
    if (even && e + N <= count) {
      from[q] = *(const Indices *)(take + e);
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) from[q].at[n] = e + n < count ? __ldg(take + e + n) : (Index)-1;
    }
  }
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q)
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (from[q].at[n] >= 0) held[q].at[n] = fetch(source + from[q].at[n]);
#pragma unroll
  for (int q = 0; q < FLIGHT; ++q) {
    const Offset e = first + (Offset)q * threads * N;
    bool whole = even && e + N <= count;
    if (MASKED)
#pragma unroll
      for (int n = 0; n < N; ++n) whole = whole && from[q].at[n] >= 0;
    if (whole) {
      __stcs((uint4 *)(target + e), *(const uint4 *)&held[q]);
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (from[q].at[n] >= 0) target[e + n] = held[q].at[n];
    }
  }
}
