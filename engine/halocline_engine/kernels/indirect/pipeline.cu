// The transfer with warps that only read: PRODUCERS warps bring pieces to a ring of STAGES stages
// in shared memory with asynchronous copies, the other warps of a block write them to the target.
// Two barriers a stage say that it is full, and that it is empty again; a wait gives the parity of
// the phase that must have ended.

#ifdef __CUDACC__
typedef unsigned long long Barrier;

__device__ __forceinline__ unsigned shared_address(const void *at) {
  return (unsigned)__cvta_generic_to_shared(at);
}
__device__ __forceinline__ void barrier_init(Barrier *barrier, const unsigned arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier *barrier) {
  asm volatile("{\n .reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(
                   shared_address(barrier))
               : "memory");
}
// Arrives when all asynchronous copies that this thread has issued are complete.
__device__ __forceinline__ void barrier_arrive_after_copies(Barrier *barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ __forceinline__ void barrier_wait(Barrier *barrier, const unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
                 " selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
}
template <typename Word> __device__ __forceinline__ void copy_async(Word *into, const Word *from) {
  static_assert(sizeof(Word) >= 4, "Asynchronous copies move 4, 8 or 16 bytes.");
  if constexpr (sizeof(Word) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(into)), "l"(from)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(into)),
                 "l"(from), "n"((int)sizeof(Word))
                 : "memory");
}
#endif

template <typename Word, typename Index, typename Offset, bool TAKE, bool PUT, bool MASKED,
          int FLIGHT, int STAGES, int PRODUCERS, int PIECES, long long COUNT, int THREADS>
__device__ __forceinline__ void
transfer_pipelined(const Word *__restrict__ source, Word *__restrict__ target,
                   const Index *__restrict__ take, const Index *__restrict__ put,
                   const long long source_step, const long long target_step,
                   const int pieces_given, const long long count_given) {
  constexpr int readers = 32 * PRODUCERS;
  constexpr int words = readers * FLIGHT;
  __shared__ Word ring[STAGES * words];
  __shared__ Barrier full[STAGES], empty[STAGES];
  const Offset pieces = either<PIECES>((Offset)pieces_given);
  const Offset total = either<COUNT>((Offset)count_given) * pieces;
  const int writers = either<THREADS>((int)blockDim.x) - readers;
  const int me = threadIdx.x;
  source += blockIdx.y * source_step;
  target += blockIdx.y * target_step;
  const Index *const taken = TAKE ? take : nullptr;
  const Index *const placed = PUT ? put : nullptr;
  if (me == 0)
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(full + stage, readers);
      barrier_init(empty + stage, writers);
    }
  __syncthreads();
  int stage = 0;
  unsigned round = 0;
  for (Offset base = (Offset)blockIdx.x * words; base < total; base += (Offset)gridDim.x * words) {
    Word *const slot = ring + stage * words;
    Offset from, to;
    if (me < readers) {
      if (round) barrier_wait(empty + stage, (round - 1) & 1);
#pragma unroll
      for (int q = 0; q < FLIGHT; ++q) {
        const Offset p = base + me + q * readers;
        if (p < total && located<Index, Offset, MASKED>(p, pieces, taken, placed, from, to))
          copy_async(slot + me + q * readers, source + from);
      }
      barrier_arrive_after_copies(full + stage);
    } else {
      barrier_wait(full + stage, round & 1);
      for (int w = me - readers; w < words; w += writers) {
        const Offset p = base + w;
        if (p < total && located<Index, Offset, MASKED>(p, pieces, taken, placed, from, to))
          keep(target + to, slot[w], !PUT);
      }
      barrier_arrive(empty + stage);
    }
    if (++stage == STAGES) {
      stage = 0;
      ++round;
    }
  }
}
