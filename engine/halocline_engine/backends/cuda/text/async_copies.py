"""Device functions for threads that cooperate: asynchronous copies and barriers.

The text is for a CUDA compiler only. The emulation of tests has functions of the same names, whose
copies arrive no earlier than at the wait.
"""

from __future__ import annotations

__all__ = ["BARRIERS", "COPIES", "NAMED_BARRIERS"]

#: A thread brings 4, 8 or 16 bytes, aligned to their size, from global to shared memory. What it
#: has committed is a group; `copy_async_wait<N>` waits for all its groups but the latest N. Other
#: threads see the bytes after a barrier behind the wait.
COPIES = """\
#ifdef __CUDACC__
__device__ __forceinline__ void copy_async4(void *into, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async8(void *into, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async16(void *into, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(into)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ void copy_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
#endif
"""

#: A barrier with a number from 1 to 15 for whole warps, `threads` of them in all: some wait for it
#: to be complete, others only arrive and go on. Number 0 is that of `__syncthreads`.
NAMED_BARRIERS = """\
#ifdef __CUDACC__
__device__ __forceinline__ void named_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
#endif
"""

#: A barrier in shared memory at which so many threads arrive in each phase. Later all threads of
#: the block wait for the phase of a parity; that before the first one is complete and has parity 1.
#: Devices that cannot arrive early meet where they wait.
BARRIERS = """\
#ifdef __CUDACC__
typedef unsigned long long Barrier;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void barrier_init(Barrier *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier *barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}
__device__ __forceinline__ void barrier_wait(Barrier *barrier, int parity) {
  asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; "
               "@!done bra again; }" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
}
#else
__device__ __forceinline__ void barrier_init(Barrier *, int) {}
__device__ __forceinline__ void barrier_arrive(Barrier *) {}
__device__ __forceinline__ void barrier_wait(Barrier *, int) { __syncthreads(); }
#endif
#endif
"""
