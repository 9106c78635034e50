// Between the flat layout and blocks of interleaved vectors, by tiles through shared memory.
//
// Constants: WORD (a type as large as an element), WIDTH (vectors a block), TILE (elements of each
// vector that go through at a time), THREADS. A block of threads moves one block of vectors. `froms`
// says where each vector is in the flat layout, `sizes` how long it is; `starts` where each block
// begins. Padding is filled with `padding`.
typedef WORD word;
extern __shared__ __align__(16) unsigned char chip[];

// One element more in a row, so that neither direction meets on the same banks.
#define PITCH (TILE + 1)

extern "C" __global__ void __launch_bounds__(THREADS) pack(
    const word* __restrict__ flat, word* __restrict__ packed,
    const long long* __restrict__ froms, const long long* __restrict__ sizes,
    const long long* __restrict__ starts, const long long* __restrict__ lengths,
    const long long vectors, const word padding) {
  word* tile = (word*)chip;
  const long long block = blockIdx.x, first = block * WIDTH;
  const long long length = lengths[block], start = starts[block];
  for (long long begin = 0; begin < length; begin += TILE) {
    for (int n = threadIdx.x; n < WIDTH * TILE; n += THREADS) {
      const int lane = n / TILE, i = n % TILE;
      const long long vector = first + lane;
      const bool there = vector < vectors && begin + i < sizes[vector];
      tile[lane * PITCH + i] = there ? flat[froms[vector] + begin + i] : padding;
    }
    __syncthreads();
    for (int n = threadIdx.x; n < WIDTH * TILE; n += THREADS) {
      const int lane = n % WIDTH, i = n / WIDTH;
      if (begin + i < length) packed[start + (begin + i) * WIDTH + lane] = tile[lane * PITCH + i];
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) unpack(
    const word* __restrict__ packed, word* __restrict__ flat,
    const long long* __restrict__ froms, const long long* __restrict__ sizes,
    const long long* __restrict__ starts, const long long* __restrict__ lengths,
    const long long vectors, const word padding) {
  (void)padding;
  word* tile = (word*)chip;
  const long long block = blockIdx.x, first = block * WIDTH;
  const long long length = lengths[block], start = starts[block];
  for (long long begin = 0; begin < length; begin += TILE) {
    for (int n = threadIdx.x; n < WIDTH * TILE; n += THREADS) {
      const int lane = n % WIDTH, i = n / WIDTH;
      if (begin + i < length) tile[lane * PITCH + i] = packed[start + (begin + i) * WIDTH + lane];
    }
    __syncthreads();
    for (int n = threadIdx.x; n < WIDTH * TILE; n += THREADS) {
      const int lane = n / TILE, i = n % TILE;
      const long long vector = first + lane;
      if (vector < vectors && begin + i < sizes[vector])
        flat[froms[vector] + begin + i] = tile[lane * PITCH + i];
    }
    __syncthreads();
  }
}
