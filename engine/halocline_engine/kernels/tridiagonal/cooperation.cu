// Copies to the chip and arithmetic of kernels that have several threads for a system.
extern __shared__ __align__(16) unsigned char chip[];

#define EVERY 0xffffffffu

#ifdef __CUDACC__
// Asynchronous where the device has that.
template <typename Word>
static __device__ __forceinline__ void copy_async(Word* into, const Word* from) {
#if __CUDA_ARCH__ < 800
  *into = *from;
#else
  const unsigned to = (unsigned)__cvta_generic_to_shared(into);
  if constexpr (sizeof(Word) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
                 "n"((int)sizeof(Word))
                 : "memory");
#endif
}
static __device__ __forceinline__ void copy_async_wait_all() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif

static __device__ __forceinline__ double mad(double x, double y, double z) {
  return __fma_rn(x, y, z);
}
static __device__ __forceinline__ float mad(float x, float y, float z) { return __fmaf_rn(x, y, z); }
static __device__ __forceinline__ float absolute(float v) { return fabsf(v); }
static __device__ __forceinline__ double absolute(double v) { return fabs(v); }
