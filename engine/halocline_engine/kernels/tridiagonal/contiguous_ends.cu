// The equations of both ends of pieces whose rows lie side by side; a thread a piece, with the bits
// of `reduce` in levels.cu. Threads beside each other read what is far apart, so warps bring lines
// of 128 bytes of each piece to the chip, the next ones while they compute.
//
// Constants: REAL, THREADS, those of a warp. A piece has a multiple of 128 bytes of rows.
#include "elements.cu"
#include "row.cu"
#include "cooperation.cu"

#define BANDS 4
#define WORDS 8
#define TAKEN (16 / (int)sizeof(real))
#define ROWS (WORDS * TAKEN)

struct alignas(16) Word {
  real v[TAKEN];
};

// Words of a line lie so that those which threads read at once are in different banks.
static __device__ __forceinline__ int place_of(int band, int piece, int word) {
  return (band * THREADS + piece) * WORDS + (word ^ (piece % WORDS));
}

extern "C" __global__ void __launch_bounds__(THREADS) reduce_contiguous(
    const real* __restrict__ a, const real* __restrict__ b, const real* __restrict__ c,
    const real* __restrict__ d, real* __restrict__ ends, const long long all, const int rows) {
  Word* const both = (Word*)chip;
  const int lane = threadIdx.x, lines = rows / ROWS;
  const long long first = (long long)blockIdx.x * THREADS;
  const auto bring = [&](const real* __restrict__ band, int number, int line) {
    Word* const to = both + line % 2 * (BANDS * THREADS * WORDS);
#pragma unroll
    for (int n = lane; n < THREADS * WORDS; n += THREADS) {
      const int piece = n / WORDS, word = n % WORDS;
      if (first + piece >= all) break;
      const real* const from = band + (first + piece) * rows + line * ROWS;
      copy_async(to + place_of(number, piece, word), (const Word*)from + word);
    }
  };
  const auto bring_all = [&](int line) {
    bring(a, 0, line);
    bring(b, 1, line);
    bring(c, 2, line);
    bring(d, 3, line);
  };
  Ends found;
  bring_all(0);
  for (int line = 0; line < lines; ++line) {
    copy_async_wait_all();
    __syncwarp();
    if (line + 1 < lines) bring_all(line + 1);
    const Word* const from = both + line % 2 * (BANDS * THREADS * WORDS);
#pragma unroll
    for (int word = 0; word < WORDS; ++word) {
      const Word low = from[place_of(0, lane, word)], own = from[place_of(1, lane, word)];
      const Word high = from[place_of(2, lane, word)], given = from[place_of(3, lane, word)];
#pragma unroll
      for (int e = 0; e < TAKEN; ++e) {
        const bool begins = word == 0 && e == 0, ends_here = word == WORDS - 1 && e == TAKEN - 1;
        if (begins && line == 0)
          found.begin(low.v[e], own.v[e], high.v[e], given.v[e]);
        else if (ends_here && line == lines - 1)
          found.end(low.v[e], own.v[e], high.v[e], given.v[e]);
        else
          found.go_on(low.v[e], own.v[e], high.v[e], given.v[e]);
      }
    }
    __syncwarp();
  }
  if (first + lane < all) found.write(ends, all, first + lane);
}
