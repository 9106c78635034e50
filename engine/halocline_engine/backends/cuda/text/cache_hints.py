"""Device functions for cache hints: loads with an eviction policy, and prefetch.

Devices before compute capability 8.0, and the emulation of tests, load plainly.
"""

from __future__ import annotations

__all__ = ["FETCH", "POLICIES"]

#: A policy is made once by a thread; elements of other than 4 or 8 bytes are loaded plainly. What
#: is loaded so is written by no thread.
POLICIES = """\
typedef unsigned long long Policy;
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ Policy policy_keep() {
  Policy policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ Policy policy_drop() {
  Policy policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
template <class T> __device__ __forceinline__ T policy_load(const T *from, Policy policy) {
  if constexpr (sizeof(T) == 8) {
    unsigned long long word;
    asm("ld.global.nc.L2::cache_hint.b64 %0, [%1], %2;" : "=l"(word) : "l"(from), "l"(policy));
    T value;
    memcpy(&value, &word, 8);
    return value;
  } else if constexpr (sizeof(T) == 4) {
    unsigned word;
    asm("ld.global.nc.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(word) : "l"(from), "l"(policy));
    T value;
    memcpy(&value, &word, 4);
    return value;
  } else {
    return *from;
  }
}
#else
__device__ __forceinline__ Policy policy_keep() { return 0; }
__device__ __forceinline__ Policy policy_drop() { return 0; }
template <class T> __device__ __forceinline__ T policy_load(const T *from, Policy) {
  return *from;
}
#endif
"""
#: Devices ask for a line; where tests run the code on the host there is nothing to ask.
FETCH = """\
template <class T> __device__ __forceinline__ void fetch(const T *from) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#else
  (void)from;
#endif
}
"""
