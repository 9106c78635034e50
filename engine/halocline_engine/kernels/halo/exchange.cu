// Cells of halos go from the array of one device into a buffer of another one, and from there into
// its array; see problem.py. Each row of the grid has a box, whose cells its blocks share.
//
// LAG is how far a sender may be ahead of what is consumed. A wait ends when LIMIT looks were in
// vain, or when someone asks for the end: then `failed` is set, and nobody waits any more.
struct Box {
  long long link, width, array, buffer;
  long long size[3], steps[3], unused[2];
};

struct Link {
  unsigned long long *awaited, *set, *done;
  long long half, boxes, unused;
};

// How many exchanges were complete before this one, blocks of it that are done, and what went wrong.
struct State {
  unsigned long long complete, blocks, failed, unused;
};

__device__ static bool arrived(const Link &link, unsigned long long least, State *state,
                               const volatile unsigned long long *ended) {
  const volatile unsigned long long *awaited = link.awaited;
  for (long long look = 0; *awaited < least; ++look) {
    if (look > LIMIT || *ended || *(volatile unsigned long long *)&state->failed) {
      state->failed = 1;
      return false;
    }
  }
  // What was stored before the counter was set is visible from here on.
  __threadfence_system();
  return true;
}

template <typename Word>
__device__ static void move(const Box &box, unsigned char *buffer, bool out) {
  const unsigned along = box.size[0], beside = box.size[1];
  const unsigned cells = along * beside * (unsigned)box.size[2];
  for (unsigned cell = blockIdx.x * blockDim.x + threadIdx.x; cell < cells;
       cell += gridDim.x * blockDim.x) {
    const unsigned row = cell / along, k = row / beside;
    const long long i = cell - row * along, j = row - k * beside;
    volatile Word *there = (volatile Word *)buffer + cell;
    Word *here = (Word *)(box.array + i * box.steps[0] + j * box.steps[1] + k * box.steps[2]);
    if (out)
      *there = *here;
    else
      *here = *there;
  }
}

__device__ static void exchange(const Box *boxes, Link *links, State *state,
                                const volatile unsigned long long *ended, bool out) {
  const Box box = boxes[blockIdx.y];
  const Link link = links[box.link];
  __shared__ unsigned long long number;
  __shared__ bool go;
  if (threadIdx.x == 0) {
    number = state->complete + 1;
    go = arrived(link, out ? (number > LAG ? number - LAG : 0) : number, state, ended);
  }
  __syncthreads();
  if (go) {
    unsigned char *buffer = (unsigned char *)(box.buffer + (long long)(number & 1) * link.half);
    if (box.width == 8)
      move<unsigned long long>(box, buffer, out);
    else if (box.width == 4)
      move<unsigned int>(box, buffer, out);
    else if (box.width == 2)
      move<unsigned short>(box, buffer, out);
    else
      move<unsigned char>(box, buffer, out);
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned long long all = (unsigned long long)link.boxes * gridDim.x;
    if (atomicAdd(link.done, 1ull) + 1 == number * all) {
      __threadfence_system();
      *(volatile unsigned long long *)link.set = number;
    }
    if (atomicAdd(&state->blocks, 1ull) + 1 == number * gridDim.x * gridDim.y)
      state->complete = number;
  }
}

extern "C" __global__ void send_halos(const Box *boxes, Link *links, State *state,
                                const unsigned long long *ended) {
  exchange(boxes, links, state, ended, true);
}

extern "C" __global__ void receive_halos(const Box *boxes, Link *links, State *state,
                                   const unsigned long long *ended) {
  exchange(boxes, links, state, ended, false);
}
