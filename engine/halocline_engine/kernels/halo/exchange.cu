// Cells of halos go from the array of one device into a buffer of another one, and from there into
// its array; see problem.py. Each row of the grid has a box, whose cells its blocks share. Boxes
// that are sent come first, so that nobody who waits keeps them from being sent.
//
// LAG is how far a sender may be ahead of what is consumed. A wait ends when LIMIT looks were in
// vain, or when someone asks for the end: then `failed` is set, and nobody waits any more. Who asks
// does so in the memory of the host, where reads take microseconds and follow one another: only the
// first block of a box looks there, once in EVERY looks at the counter.
struct Box {
  long long link, width, array, buffer;
  long long size[3], steps[3], unused[2];
};

struct Link {
  unsigned long long *awaited, *set, *done;
  long long half, boxes, numbered;
};

// How many exchanges were complete before this one, blocks of it that are done, and what went wrong.
struct State {
  unsigned long long complete, blocks, failed, unused;
};

// A thread has so many words under way at once: AT_ONCE, or NUMBERED where words are numbered.
#define EVERY 256
#define AT_ONCE 4
#define NUMBERED 8

// Let the kernel behind this one come to the processors, and wait for the one in front of it; that
// is complete already unless this one was launched to follow it early.
__device__ static void follow() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Whether a wait is over although nothing came, after so many looks.
__device__ static bool over(long long look, State *state, const volatile unsigned long long *ended) {
  if (look % EVERY)
    return false;
  const bool asked = blockIdx.x == 0 && *ended;
  if (look <= LIMIT && !asked && !*(volatile unsigned long long *)&state->failed)
    return false;
  state->failed = 1;
  return true;
}

__device__ static bool arrived(const Link &link, unsigned long long least, State *state,
                               const volatile unsigned long long *ended) {
  const volatile unsigned long long *awaited = link.awaited;
  for (long long look = 1; *awaited < least; ++look)
    if (over(look, state, ended))
      return false;
  // What was stored before the counter was set is visible from here on.
  __threadfence_system();
  return true;
}

template <typename Word> __device__ static Word *place(const Box &box, unsigned cell) {
  const unsigned along = box.size[0], beside = box.size[1];
  const unsigned row = cell / along, k = row / beside;
  const long long i = cell - row * along, j = row - k * beside;
  return (Word *)(box.array + i * box.steps[0] + j * box.steps[1] + k * box.steps[2]);
}

// Loads and stores of words that come as wholes, whatever else is under way; two at once.
template <unsigned WORDS>
__device__ static void load_words(unsigned long long *words, const unsigned long long *place) {
#if defined(__CUDA_ARCH__)
  if (WORDS == 2) {
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(words[0]), "=l"(words[WORDS - 1])
                 : "l"(place));
    return;
  }
#endif
  for (unsigned n = 0; n < WORDS; ++n)
    words[n] = ((const volatile unsigned long long *)place)[n];
}

template <unsigned WORDS>
__device__ static void store_words(unsigned long long *place, const unsigned long long *words) {
#if defined(__CUDA_ARCH__)
  if (WORDS == 2) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(place), "l"(words[0]),
                 "l"(words[WORDS - 1]));
    return;
  }
#endif
  for (unsigned n = 0; n < WORDS; ++n)
    ((volatile unsigned long long *)place)[n] = words[n];
}

// Each four bytes of a cell go with the number of the exchange, in one word that comes as a whole:
// who waits for the number has the cell, and nothing is counted. A look takes most of a
// microsecond, so a thread looks at several cells at once.
template <typename Word>
__device__ static void move_numbered(const Box &box, unsigned char *buffer, bool out,
                                     unsigned number, State *state,
                                     const volatile unsigned long long *ended) {
  const unsigned parts = sizeof(Word) / sizeof(unsigned);
  const unsigned cells = (unsigned)box.size[0] * (unsigned)box.size[1] * (unsigned)box.size[2];
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned first = blockIdx.x * blockDim.x + threadIdx.x; first < cells;
       first += NUMBERED * stride) {
    union {
      Word whole;
      unsigned part[parts];
    } values[NUMBERED];
    unsigned long long words[NUMBERED][parts];
    unsigned long long *places[NUMBERED];
#pragma unroll
    for (unsigned n = 0; n < NUMBERED; ++n)
      places[n] = (unsigned long long *)buffer + (first + n * stride) * parts;
    const unsigned left = (cells - first + stride - 1) / stride;
    if (out) {
#pragma unroll
      for (unsigned n = 0; n < NUMBERED; ++n)
        if (n < left)
          values[n].whole = __ldcg(place<Word>(box, first + n * stride));
#pragma unroll
      for (unsigned n = 0; n < NUMBERED; ++n)
        if (n < left) {
          for (unsigned p = 0; p < parts; ++p)
            words[n][p] = (unsigned long long)number << 32 | values[n].part[p];
          store_words<parts>(places[n], words[n]);
        }
      continue;
    }
    bool complete = false;
    for (long long look = 1; !complete; ++look) {
      complete = true;
#pragma unroll
      for (unsigned n = 0; n < NUMBERED; ++n)
        if (n < left)
          load_words<parts>(words[n], places[n]);
#pragma unroll
      for (unsigned n = 0; n < NUMBERED; ++n)
        for (unsigned p = 0; p < parts; ++p)
          complete &= n >= left || (unsigned)(words[n][p] >> 32) == number;
      if (!complete && over(look, state, ended))
        return;
    }
#pragma unroll
    for (unsigned n = 0; n < NUMBERED; ++n)
      if (n < left) {
        for (unsigned p = 0; p < parts; ++p)
          values[n].part[p] = (unsigned)words[n][p];
        *place<Word>(box, first + n * stride) = values[n].whole;
      }
  }
}

// What other devices store is in the second cache and no nearer to a processor: __ldcg reads there.
template <typename Word>
__device__ static void move(const Box &box, unsigned char *buffer, bool out) {
  const unsigned cells = (unsigned)box.size[0] * (unsigned)box.size[1] * (unsigned)box.size[2];
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned first = blockIdx.x * blockDim.x + threadIdx.x; first < cells;
       first += AT_ONCE * stride) {
    Word words[AT_ONCE];
    Word *here[AT_ONCE];
#pragma unroll
    for (unsigned n = 0; n < AT_ONCE; ++n) {
      const unsigned cell = first + n * stride;
      if (cell >= cells)
        break;
      here[n] = place<Word>(box, cell);
      words[n] = __ldcg(out ? here[n] : (const Word *)buffer + cell);
    }
#pragma unroll
    for (unsigned n = 0; n < AT_ONCE; ++n) {
      const unsigned cell = first + n * stride;
      if (cell >= cells)
        break;
      *(out ? (Word *)buffer + cell : here[n]) = words[n];
    }
  }
}

// The first `sent` boxes are sent, the others are received. `states` has one for each of both.
extern "C" __global__ void exchange_halos(const Box *boxes, Link *links, State *states,
                                          const unsigned long long *ended, unsigned sent) {
  const Box box = boxes[blockIdx.y];
  const Link link = links[box.link];
  const bool out = blockIdx.y < sent;
  State *state = states + (out ? 0 : 1);
  __shared__ unsigned long long number;
  __shared__ bool go;
  follow();
  if (threadIdx.x == 0) {
    number = state->complete + 1;
    go = link.numbered ||
         arrived(link, out ? (number > LAG ? number - LAG : 0) : number, state, ended);
  }
  __syncthreads();
  unsigned char *buffer = (unsigned char *)(box.buffer + (long long)(number & 1) * link.half);
  if (link.numbered) {
    if (box.width == 8)
      move_numbered<unsigned long long>(box, buffer, out, number, state, ended);
    else
      move_numbered<unsigned int>(box, buffer, out, number, state, ended);
  } else if (go) {
    if (box.width == 16)
      move<uint4>(box, buffer, out);
    else if (box.width == 8)
      move<unsigned long long>(box, buffer, out);
    else if (box.width == 4)
      move<unsigned int>(box, buffer, out);
    else if (box.width == 2)
      move<unsigned short>(box, buffer, out);
    else
      move<unsigned char>(box, buffer, out);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned long long all = (unsigned long long)link.boxes * gridDim.x;
    if (!link.numbered) {
      // What all threads of the block stored comes before the counter.
      __threadfence_system();
      if (atomicAdd(link.done, 1ull) + 1 == number * all) {
        __threadfence_system();
        *(volatile unsigned long long *)link.set = number;
      }
    }
    if (atomicAdd(&state->blocks, 1ull) + 1 == number * gridDim.x * (out ? sent : gridDim.y - sent))
      state->complete = number;
  }
}
