// The first pass of a grouped gather: a block brings a window of the source to shared memory, and
// writes what is asked of it. Element n of those of window w, which are n = starts[w] and on, is at
// take[n] in the window and goes to put[n], in runs: what goes to one part of the target lies side
// by side, so that the second pass finds it in few pages of memory.

template <typename Word, typename Index, int PIECES, int WINDOW, int FLIGHT, int THREADS>
__device__ __forceinline__ void
gather_window(const Word *__restrict__ source, Word *__restrict__ target,
              const unsigned short *__restrict__ take, const Index *__restrict__ put,
              const long long *__restrict__ starts, const long long elements) {
  constexpr int WORDS = WINDOW * PIECES;
  constexpr int PER = 16 / (int)sizeof(Word);
  __shared__ uint4 room[(WORDS * (int)sizeof(Word) + 15) / 16];
  Word *const held = (Word *)room;
  const long long window = blockIdx.x;
  const long long begin = __ldg(starts + window), end = __ldg(starts + window + 1);
  if (begin == end) return;
  const Word *const here = source + window * WORDS;
  const long long left = elements * PIECES - window * WORDS;
  const int words = left < WORDS ? (int)left : WORDS;
  int done = 0;
  if (((unsigned long long)here & 15) == 0) {
    const uint4 *const wide = (const uint4 *)here;
    done = words / PER;
#pragma unroll FLIGHT
    for (int n = threadIdx.x; n < done; n += THREADS) room[n] = __ldg(wide + n);
    done *= PER;
  }
  for (int n = done + threadIdx.x; n < words; n += THREADS) held[n] = __ldg(here + n);
  __syncthreads();
#pragma unroll FLIGHT
  for (long long p = begin * PIECES + threadIdx.x; p < end * PIECES; p += THREADS) {
    const long long n = p / PIECES;
    const int part = (int)(p - n * PIECES);
    const long long to = (long long)__ldg(put + n) * PIECES + part;
    target[to] = held[(int)__ldg(take + n) * PIECES + part];
  }
}
