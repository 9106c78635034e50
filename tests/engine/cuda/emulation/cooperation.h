// Threads of a block that work together: barriers, shared memory, exchanges within a warp and
// copies in flight.
//
// Each thread is a fiber. A warp runs until all its lanes wait for the block or have ended, so a
// warp gets as far ahead of the others as barriers let it. Shared memory holds set bits, which are
// NaN, when a block begins. A barrier that not all threads of a block reach, or that they reach in
// different lines, is reported; so is whatever else no device would let through.
#pragma once

static constexpr unsigned EMULATION_STACK = 1 << 17, EMULATION_GUARD = 1 << 12;
static constexpr unsigned EMULATION_ROOM = 227 << 10, EMULATION_STATIC = 48 << 10;
static constexpr int EMULATION_BARRIERS = 16;
static constexpr unsigned EMULATION_THREADS = 1024, EMULATION_COPIES = 2048, EMULATION_ARRAYS = 64;

enum class Waiting : unsigned char { NO, BLOCK, WARP, BARRIER, PHASE, ENDED };

struct EmulationCopy {
  void *into;
  const void *from;
  unsigned size, group;
};

struct EmulationThread {
  jmp_buf place;
  char *stack;
  bool started;
  Dim3 index;
  unsigned lane, warp;
  Waiting waiting;
  int line, barrier, source;
  const unsigned long long *phase;
  unsigned mask, ballot, group;
  unsigned long long value, result;
  unsigned flying;
  EmulationCopy copies[EMULATION_COPIES];
};
struct EmulationBarrier {
  unsigned arrived, expected;
};
struct EmulationArray {
  void *place;
  emulation_size size;
};

extern "C" {
EmulationThread *emulation_self;
jmp_buf emulation_scheduler;
void (*emulation_run)(void *);
void *emulation_context;
}
static EmulationThread emulation_threads[EMULATION_THREADS];
static EmulationArray emulation_arrays[EMULATION_ARRAYS];
static unsigned emulation_known;
static EmulationBarrier emulation_barriers[EMULATION_BARRIERS];
__align__(1024) static char emulation_dynamic[EMULATION_ROOM + EMULATION_GUARD];

// ---- fibers

// Hand the turn to the scheduler.
static __attribute__((noinline)) void emulation_yield() {
  if (!_setjmp(emulation_self->place)) _longjmp(emulation_scheduler, 1);
}

static void emulation_fiber() {
  for (;;) {
    emulation_run(emulation_context);
    if (emulation_self->flying)
      EMULATION_FAIL("A thread ended before it waited for its copies.");
    emulation_self->waiting = Waiting::ENDED;
    emulation_yield();
  }
}

static __attribute__((noinline)) void emulation_resume(EmulationThread &thread) {
  emulation_self = &thread;
  threadIdx = thread.index;
  if (_setjmp(emulation_scheduler)) return;
  if (thread.started) _longjmp(thread.place, 1);
  thread.started = true;
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = thread.stack;
  start.uc_stack.ss_size = EMULATION_STACK;
  start.uc_link = nullptr;
  makecontext(&start, emulation_fiber, 0);
  setcontext(&start);
}

// The stacks of a launch, with a guard below each. They are unmapped at its end: two mappings a
// thread, kept for each library, soon exceed what a process may have.
struct EmulationStacks {
  static constexpr emulation_size EACH = EMULATION_STACK + EMULATION_GUARD;
  emulation_size size;
  char *room;

  explicit EmulationStacks(unsigned threads) : size(threads * EACH) {
    room = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
      EMULATION_FAIL("There is no room for %u stacks of %zu bytes.", threads, EACH);
      return;
    }
    for (unsigned n = 0; n < threads; ++n) {
      mprotect(room + n * EACH, EMULATION_GUARD, PROT_NONE);
      emulation_threads[n].stack = room + n * EACH + EMULATION_GUARD;
      emulation_threads[n].started = false;
    }
  }
  ~EmulationStacks() {
    if (room != MAP_FAILED) munmap(room, size);
  }
};

static void emulation_prepare(unsigned count) {
  for (unsigned n = 0; n < count; ++n) {
    EmulationThread &thread = emulation_threads[n];
    thread.index = emulation_place(n, blockDim);
    thread.lane = n % 32;
    thread.warp = n / 32;
    thread.waiting = Waiting::NO;
    thread.group = thread.flying = 0;
    thread.value = 0;
  }
}

// ---- warps

static inline EmulationThread *emulation_lane(unsigned warp, unsigned lane) {
  const unsigned n = warp * 32 + lane;
  const bool there = n < blockDim.x * blockDim.y * blockDim.z;
  EmulationThread *thread = there ? &emulation_threads[n] : nullptr;
  return thread && thread->waiting != Waiting::ENDED ? thread : nullptr;
}

// Give every lane of a mask its result once all of them that have not ended are there.
static bool emulation_release(unsigned warp, unsigned mask) {
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const EmulationThread *thread = mask >> lane & 1 ? emulation_lane(warp, lane) : nullptr;
    if (!thread) continue;
    if (thread->waiting != Waiting::WARP || thread->mask != mask) return false;
    ballot |= (unsigned)(thread->value != 0) << lane;
  }
  int line = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    EmulationThread *thread = mask >> lane & 1 ? emulation_lane(warp, lane) : nullptr;
    if (!thread) continue;
    if (line && thread->line != line)
      EMULATION_FAIL("Lanes of one warp exchange values in lines %d and %d.", line, thread->line);
    line = thread->line;
    const bool given = mask >> (thread->source & 31) & 1;
    const EmulationThread *source = given ? emulation_lane(warp, thread->source & 31) : nullptr;
    thread->result = source ? source->value : ~0ull;
    thread->ballot = ballot;
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      if (EmulationThread *thread = emulation_lane(warp, lane)) thread->waiting = Waiting::NO;
  return true;
}

static void emulation_exchange(int line, unsigned mask, unsigned long long value, int source) {
  EmulationThread &self = *emulation_self;
  if (!(mask >> self.lane & 1))
    EMULATION_FAIL("Lane %u is not in the mask %08x of line %d.", self.lane, mask, line);
  self.line = line;
  self.mask = mask;
  self.value = value;
  self.source = source;
  self.waiting = Waiting::WARP;
  if (emulation_error[0] || !emulation_release(self.warp, mask)) emulation_yield();
}

template <class T>
static T emulation_shuffle(int line, unsigned mask, T value, int source, bool own) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  emulation_exchange(line, mask, bits, own ? (int)emulation_self->lane : source);
  __builtin_memcpy(&value, &emulation_self->result, sizeof value);
  return value;
}
template <class T>
static T emulation_shfl(int line, unsigned mask, T value, int source, int width = 32) {
  const int first = (int)emulation_self->lane & ~(width - 1);
  return emulation_shuffle(line, mask, value, first | (source & (width - 1)), false);
}
template <class T>
static T emulation_shfl_up(int line, unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = (int)emulation_self->lane, source = lane - (int)by;
  return emulation_shuffle(line, mask, value, source, source < (lane & ~(width - 1)));
}
template <class T>
static T emulation_shfl_down(int line, unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = (int)emulation_self->lane, source = lane + (int)by;
  return emulation_shuffle(line, mask, value, source, source >= (lane & ~(width - 1)) + width);
}
template <class T>
static T emulation_shfl_xor(int line, unsigned mask, T value, int by, int width = 32) {
  const int lane = (int)emulation_self->lane, source = lane ^ by;
  return emulation_shuffle(line, mask, value, source, source >= (lane & ~(width - 1)) + width);
}
static unsigned emulation_ballot(int line, unsigned mask, int predicate) {
  emulation_exchange(line, mask, predicate != 0, (int)emulation_self->lane);
  return emulation_self->ballot;
}
static bool emulation_all(int line, unsigned mask, int predicate) {
  return !emulation_ballot(line, mask, !predicate);
}
static void emulation_syncwarp(int line, unsigned mask = ~0u) {
  emulation_exchange(line, mask, 0, (int)emulation_self->lane);
}
#define __shfl_sync(...) emulation_shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) emulation_shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) emulation_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) emulation_shfl_xor(__LINE__, __VA_ARGS__)
#define __ballot_sync(...) emulation_ballot(__LINE__, __VA_ARGS__)
#define __any_sync(...) (emulation_ballot(__LINE__, __VA_ARGS__) != 0)
#define __all_sync(...) emulation_all(__LINE__, __VA_ARGS__)
#define __syncwarp(...) emulation_syncwarp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
static inline unsigned __activemask() {
  unsigned mask = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    mask |= (unsigned)(emulation_lane(emulation_self->warp, lane) != nullptr) << lane;
  return mask;
}

// ---- blocks

// Return how many threads gave true.
static unsigned emulation_syncthreads(int line, int predicate = 0) {
  EmulationThread &self = *emulation_self;
  self.line = line;
  self.value = predicate != 0;
  self.waiting = Waiting::BLOCK;
  emulation_yield();
  return (unsigned)self.result;
}
#define __syncthreads() ((void)emulation_syncthreads(__LINE__))
#define __syncthreads_count(...) ((int)emulation_syncthreads(__LINE__, __VA_ARGS__))
#define __syncthreads_or(...) ((int)(emulation_syncthreads(__LINE__, __VA_ARGS__) != 0))
#define __syncthreads_and(...)                                                                    \
  ((int)(emulation_syncthreads(__LINE__, __VA_ARGS__) == blockDim.x * blockDim.y * blockDim.z))

// A barrier of some warps, as in `bar.sync id, threads`; the others go on after `named_arrive`.
static void emulation_barrier(int line, int id, unsigned threads, bool wait) {
  EmulationThread &self = *emulation_self;
  if (id < 1 || id >= EMULATION_BARRIERS || threads == 0 || threads % 32) {
    EMULATION_FAIL("Line %d: a barrier has a number from 1 to 15 and whole warps, got number %d"
                   " and %u threads.", line, id, threads);
    id = 0;
  }
  EmulationBarrier &barrier = emulation_barriers[id];
  if (barrier.arrived && barrier.expected != threads)
    EMULATION_FAIL("Line %d: barrier %d is used for %u and for %u threads.", line, id,
                   barrier.expected, threads);
  barrier.expected = threads;
  self.line = line;
  self.barrier = id;
  if (wait) self.waiting = Waiting::BARRIER;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    for (EmulationThread &thread : emulation_threads)
      if (thread.waiting == Waiting::BARRIER && thread.barrier == id) thread.waiting = Waiting::NO;
  }
  if (self.waiting != Waiting::NO || emulation_error[0]) emulation_yield();
}
#define named_sync(id, threads) emulation_barrier(__LINE__, id, threads, true)
#define named_arrive(id, threads) emulation_barrier(__LINE__, id, threads, false)

// ---- copies in flight

// What is copied arrives at the wait; until then its place holds set bits.
static void emulation_copy(void *into, const void *from, unsigned size) {
  emulation_aligned(into, size);
  emulation_aligned(from, size);
  if (emulation_error[0]) emulation_yield();
  if (emulation_self->flying == EMULATION_COPIES) {
    EMULATION_FAIL("A thread has more than %u copies in flight.", EMULATION_COPIES);
    emulation_yield();
  }
  __builtin_memset(into, 0xff, size);
  emulation_self->copies[emulation_self->flying++] = {into, from, size, emulation_self->group};
}
static inline void copy_async4(void *into, const void *from) { emulation_copy(into, from, 4); }
static inline void copy_async8(void *into, const void *from) { emulation_copy(into, from, 8); }
static inline void copy_async16(void *into, const void *from) { emulation_copy(into, from, 16); }
static inline void copy_async4_if(bool there, void *into, const void *from) {
  if (there) emulation_copy(into, from, 4);
  else __builtin_memset(into, 0, 4);
}
static inline void copy_async16_if(bool there, void *into, const void *from) {
  if (there) emulation_copy(into, from, 16);
  else __builtin_memset(into, 0, 16);
}
static inline void copy_async_commit() { ++emulation_self->group; }
// Wait for all groups before `end`.
static void emulation_arrive(unsigned end) {
  EmulationThread &self = *emulation_self;
  unsigned left = 0;
  for (unsigned n = 0; n < self.flying; ++n) {
    const EmulationCopy copy = self.copies[n];
    if (copy.group < end)
      __builtin_memcpy(copy.into, copy.from, copy.size);
    else
      self.copies[left++] = copy;
  }
  self.flying = left;
}
template <int N> static inline void copy_async_wait() {
  if (emulation_self->group > N) emulation_arrive(emulation_self->group - N);
}
static inline void copy_async_wait_all() { emulation_arrive(emulation_self->group + 1); }

// Blocks run one after the other, so a flag that is not set yet will not be.
static inline void flag_wait(const unsigned *flag) {
  if (!*flag) EMULATION_FAIL("A block waits for a flag that only a later one sets.");
}
static inline void flag_set(unsigned *flag) { *flag = 1; }

// ---- barriers in shared memory, for warps of different tasks

// As mbarrier: the arrivals of a phase, those that are missing, and the parity of complete phases.
#define EMULATED_PIPELINE
typedef unsigned long long Barrier;
static inline void barrier_init(Barrier *barrier, unsigned arrivals) {
  *barrier = (unsigned long long)arrivals << 24 | arrivals;
}
static inline unsigned emulation_parity(const Barrier *barrier) { return *barrier >> 63; }
static void barrier_arrive(Barrier *barrier) {
  if ((--*barrier & 0xffffff) != 0) return;
  *barrier = (*barrier ^ 1ull << 63) | (*barrier >> 24 & 0xffffff);
  for (EmulationThread &thread : emulation_threads)
    if (thread.waiting == Waiting::PHASE && thread.phase == barrier) thread.waiting = Waiting::NO;
}
static inline void barrier_arrive_after_copies(Barrier *barrier) {
  copy_async_wait_all();
  barrier_arrive(barrier);
}
// Wait until the phase of this parity is complete.
static void barrier_wait(Barrier *barrier, unsigned parity) {
  while (emulation_parity(barrier) == parity) {
    emulation_self->phase = barrier;
    emulation_self->line = 0;
    emulation_self->waiting = Waiting::PHASE;
    emulation_yield();
  }
}
template <class Word> static inline void copy_async(Word *into, const Word *from) {
  static_assert(sizeof(Word) >= 4, "asynchronous copies move 4, 8 or 16 bytes");
  emulation_copy(into, from, sizeof(Word));
}

// ---- shared memory

// Each thread that passes the declaration of an array calls this; the first one of a block fills it.
static void emulation_shared(void *array, emulation_size size) {
  emulation_size all = size;
  for (unsigned n = 0; n < emulation_known; ++n) {
    if (emulation_arrays[n].place == array) return;
    all += emulation_arrays[n].size;
  }
  if (all > EMULATION_STATIC || emulation_known == EMULATION_ARRAYS) {
    EMULATION_FAIL("Static shared memory takes %zu bytes: there are %u, in at"
                   " most %u arrays.", all, EMULATION_STATIC, EMULATION_ARRAYS);
    emulation_yield();
  }
  __builtin_memset(array, 0xff, size);
  emulation_arrays[emulation_known++] = {array, size};
}

static void emulation_check_room(unsigned shared) {
  for (unsigned n = shared; n < shared + EMULATION_GUARD; ++n)
    if (emulation_dynamic[n] != (char)0xff) {
      EMULATION_FAIL("Something was written %u bytes behind the %u bytes of shared memory.",
                     n - shared, shared);
      return;
    }
}

// ---- one block

static void emulation_describe(unsigned count) {
  const char *const states[] = {"runs", "waits for the block", "waits for its warp",
                                "waits at a numbered barrier", "waits for a phase", "has ended"};
  const EmulationThread &one = emulation_threads[0];
  for (unsigned n = 1; n < count; ++n) {
    const EmulationThread &two = emulation_threads[n];
    if (two.waiting == one.waiting && two.line == one.line) continue;
    EMULATION_FAIL("Block (%u, %u, %u) cannot go on: thread %u %s (line %d) and thread %u %s"
                   " (line %d).", blockIdx.x, blockIdx.y, blockIdx.z, 0u,
                   states[(int)one.waiting], one.line, n, states[(int)two.waiting], two.line);
    return;
  }
  EMULATION_FAIL("Block (%u, %u, %u) cannot go on: each thread %s (line %d).", blockIdx.x,
                 blockIdx.y, blockIdx.z, states[(int)one.waiting], one.line);
}

// Run a warp until none of its lanes can go on; return whether any ran.
static bool emulation_warp(unsigned first, unsigned lanes, unsigned salt) {
  bool ran = false;
  for (bool again = true; again && !emulation_error[0];) {
    again = false;
    for (unsigned n = 0; n < lanes && !emulation_error[0]; ++n) {
      EmulationThread &thread = emulation_threads[first + emulation_pick(n, lanes, salt)];
      if (thread.waiting != Waiting::NO) continue;
      emulation_resume(thread);
      again = ran = true;
    }
  }
  return ran;
}

// Let threads go on that wait for what has come; return whether there are any.
static bool emulation_go_on(unsigned count) {
  bool any = false, all = true;
  unsigned given = 0;
  for (unsigned n = 0; n < count; ++n) {
    EmulationThread &thread = emulation_threads[n];
    if (thread.waiting == Waiting::WARP) any |= emulation_release(thread.warp, thread.mask);
    all &= thread.waiting == Waiting::BLOCK && thread.line == emulation_threads[0].line;
    given += thread.value != 0;
  }
  if (any || !all) return any;
  for (unsigned n = 0; n < count; ++n) {
    emulation_threads[n].result = given;
    emulation_threads[n].waiting = Waiting::NO;
  }
  return true;
}

static void emulation_until_end(unsigned count) {
  const unsigned warps = (count + 31) / 32;
  for (unsigned round = 0; !emulation_error[0]; ++round) {
    bool ran = false;
    for (unsigned n = 0; n < warps; ++n) {
      const unsigned warp = emulation_pick(n, warps, round), first = warp * 32;
      ran |= emulation_warp(first, count - first < 32 ? count - first : 32, round + warp);
    }
    bool ended = true;
    for (unsigned n = 0; n < count; ++n) ended &= emulation_threads[n].waiting == Waiting::ENDED;
    if (ended) return;
    if (!ran && !emulation_go_on(count)) emulation_describe(count);
  }
}

// Run the threads of one block; return whether all is well.
template <class F> static bool emulation_block(unsigned shared, F run) {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  emulation_prepare(count);
  emulation_known = 0;
  __builtin_memset(emulation_barriers, 0, sizeof emulation_barriers);
  __builtin_memset(emulation_dynamic, 0xff, shared + EMULATION_GUARD);
  emulation_context = &run;
  emulation_run = [](void *context) { (*static_cast<F *>(context))(); };
  emulation_until_end(count);
  emulation_context = nullptr;  // it is a variable of this function
  emulation_check_room(shared);
  return !emulation_error[0];
}
