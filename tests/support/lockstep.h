// Enough of CUDA C++ to run kernels with barriers, shuffles and dynamic shared memory on the host.
//
// Each thread of a block is a context of its own; a thread that waits lets the others go on, in
// ascending or descending order (`lockstep_descending`). Shared memory holds NaN before each block.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <ucontext.h>
#include <utility>

#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct Dim3 {
  unsigned x, y, z;
};
static Dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) unsigned char chip[1 << 18];
extern "C" int lockstep_descending;
int lockstep_descending = 0;

static const unsigned LOCKSTEP_THREADS = 1024;
static const std::size_t LOCKSTEP_STACK = 1 << 16;
static unsigned char lockstep_stacks[LOCKSTEP_THREADS][LOCKSTEP_STACK];
static ucontext_t lockstep_main, lockstep_context[LOCKSTEP_THREADS];
static bool lockstep_ended[LOCKSTEP_THREADS];
static unsigned lockstep_now, lockstep_count;
static void (*lockstep_run)(void *);
static void *lockstep_what;

static void lockstep_entry() {
  lockstep_run(lockstep_what);
  lockstep_ended[lockstep_now] = true;
  swapcontext(&lockstep_context[lockstep_now], &lockstep_main);
}

static inline void lockstep_wait() {
  swapcontext(&lockstep_context[lockstep_now], &lockstep_main);
}

// A barrier of the threads from `first` up to `past`; those that have ended do not count.
struct LockstepBarrier {
  unsigned arrived, round;
};
static LockstepBarrier lockstep_block, lockstep_warps[LOCKSTEP_THREADS / 32];

static inline void lockstep_meet(LockstepBarrier &barrier, unsigned first, unsigned past) {
  const unsigned round = barrier.round;
  ++barrier.arrived;
  for (;;) {
    unsigned alive = 0;
    for (unsigned t = first; t < past && t < lockstep_count; ++t) alive += !lockstep_ended[t];
    if (barrier.round == round && barrier.arrived >= alive) {
      barrier.arrived = 0;
      ++barrier.round;
    }
    if (barrier.round != round) return;
    lockstep_wait();
  }
}
static inline void __syncthreads() { lockstep_meet(lockstep_block, 0, lockstep_count); }
static inline void __syncwarp(unsigned = ~0u) {
  const unsigned warp = lockstep_now / 32;
  lockstep_meet(lockstep_warps[warp], warp * 32, warp * 32 + 32);
}

static unsigned char lockstep_slots[LOCKSTEP_THREADS][8];
template <class T> static T lockstep_exchange(T value, unsigned from) {
  std::memcpy(lockstep_slots[lockstep_now], &value, sizeof value);
  __syncwarp();
  T got;
  std::memcpy(&got, lockstep_slots[lockstep_now / 32 * 32 + from], sizeof got);
  __syncwarp();
  return got;
}
template <class T> static T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned lane = lockstep_now % 32;
  return lockstep_exchange(value, lane < by ? lane : lane - by);
}
template <class T> static T __shfl_down_sync(unsigned, T value, unsigned by) {
  const unsigned lane = lockstep_now % 32;
  return lockstep_exchange(value, lane + by > 31 ? lane : lane + by);
}
template <class T> static T __shfl_sync(unsigned, T value, unsigned lane) {
  return lockstep_exchange(value, lane);
}
static inline int __any_sync(unsigned, int value) {
  int found = 0;
  for (unsigned lane = 0; lane < 32; ++lane) found |= lockstep_exchange(value, lane) != 0;
  return found;
}
template <class T> static T __ldcs(const T *place) { return *place; }
template <class T> static T __ldg(const T *place) { return *place; }
template <class T> static void __stcs(T *place, T value) { *place = value; }

template <class... A, std::size_t... N>
static void lockstep_call(void (*kernel)(A...), void **arguments, std::index_sequence<N...>) {
  kernel(*static_cast<std::remove_reference_t<A> *>(arguments[N])...);
}
template <class... A> struct LockstepCall {
  void (*kernel)(A...);
  void **arguments;
  static void run(void *self) {
    auto *call = static_cast<LockstepCall *>(self);
    lockstep_call(call->kernel, call->arguments, std::index_sequence_for<A...>{});
  }
};

static void lockstep_one_block() {
  lockstep_count = blockDim.x * blockDim.y * blockDim.z;
  lockstep_block = {0, 0};
  for (auto &warp : lockstep_warps) warp = {0, 0};
  std::memset(chip, 0xFF, sizeof chip);
  for (unsigned t = 0; t < lockstep_count; ++t) {
    lockstep_ended[t] = false;
    getcontext(&lockstep_context[t]);
    lockstep_context[t].uc_stack.ss_sp = lockstep_stacks[t];
    lockstep_context[t].uc_stack.ss_size = LOCKSTEP_STACK;
    lockstep_context[t].uc_link = nullptr;
    makecontext(&lockstep_context[t], lockstep_entry, 0);
  }
  for (unsigned left = lockstep_count; left;) {
    left = 0;
    for (unsigned n = 0; n < lockstep_count; ++n) {
      const unsigned t = lockstep_descending ? lockstep_count - 1 - n : n;
      if (lockstep_ended[t]) continue;
      lockstep_now = t;
      threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
      swapcontext(&lockstep_main, &lockstep_context[t]);
      left += !lockstep_ended[t];
    }
  }
}

template <class... A>
static void lockstep_launch(void (*kernel)(A...), const unsigned *grid, const unsigned *block,
                            void **arguments) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  LockstepCall<A...> call{kernel, arguments};
  lockstep_run = LockstepCall<A...>::run;
  lockstep_what = &call;
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  for (unsigned b = 0; b < blocks; ++b) {
    const unsigned at = lockstep_descending ? blocks - 1 - b : b;
    blockIdx = {at % gridDim.x, at / gridDim.x % gridDim.y, at / gridDim.x / gridDim.y};
    lockstep_one_block();
  }
}
template <class... A> static int lockstep_sizes(void (*)(A...), unsigned *sizes) {
  const unsigned all[] = {sizeof(A)...};
  std::memcpy(sizes, all, sizeof all);
  return sizeof...(A);
}
#define LOCKSTEP_ENTRY(name)                                                                      \
  extern "C" void launch_##name(const unsigned *grid, const unsigned *block, void **arguments) {  \
    lockstep_launch(name, grid, block, arguments);                                                \
  }                                                                                               \
  extern "C" int sizes_##name(unsigned *sizes) { return lockstep_sizes(name, sizes); }
