// Just enough of CUDA C++ to run kernels on the host.
//
// Threads that do not work together run one after the other, in an order that `emulation_order`
// chooses, since any order is a possible one: a kernel whose threads depend on each other gives
// different results. Where EMULATION_TOGETHER is defined, threads run as fibers that wait for each
// other: see cooperation.h.
#pragma once
#ifdef EMULATION_TOGETHER
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#endif

// What is used of the libraries is declared here: headers take as long to compile as a kernel.
typedef decltype(sizeof 0) emulation_size;
extern "C" int snprintf(char *, emulation_size, const char *, ...);
template <class T> struct emulation_given {
  using type = T;
};
// A parameter of this type takes no part in finding out what T is.
template <class T> using emulation_same = typename emulation_given<T>::type;
template <class T> struct emulation_plain {
  using type = T;
};
template <class T> struct emulation_plain<T &> {
  using type = T;
};
template <emulation_size...> struct emulation_numbers {};

#define EMULATION_ONE(name)                                                                       \
  extern "C" double name(double);                                                                 \
  extern "C" float name##f(float);
#define EMULATION_TWO(name)                                                                       \
  extern "C" double name(double, double);                                                         \
  extern "C" float name##f(float, float);
EMULATION_ONE(sqrt) EMULATION_ONE(cbrt) EMULATION_ONE(exp) EMULATION_ONE(log) EMULATION_ONE(log10)
EMULATION_ONE(sin) EMULATION_ONE(cos) EMULATION_ONE(tan) EMULATION_ONE(asin) EMULATION_ONE(acos)
EMULATION_ONE(atan) EMULATION_ONE(sinh) EMULATION_ONE(cosh) EMULATION_ONE(tanh)
EMULATION_ONE(asinh) EMULATION_ONE(acosh) EMULATION_ONE(atanh) EMULATION_ONE(floor)
EMULATION_ONE(ceil) EMULATION_ONE(trunc) EMULATION_ONE(rint) EMULATION_ONE(fabs)
EMULATION_ONE(erf) EMULATION_ONE(erfc) EMULATION_ONE(tgamma)
EMULATION_TWO(pow) EMULATION_TWO(atan2) EMULATION_TWO(fmod) EMULATION_TWO(copysign)
EMULATION_TWO(fmin) EMULATION_TWO(fmax)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __builtin_assume(...) ((void)0)

struct Dim3 {
  unsigned x, y, z;
};
// These are not static: what a fiber calls may change them.
extern "C" {
Dim3 threadIdx, blockIdx, blockDim, gridDim;
int emulation_order = 0;
char emulation_error[512];
}
static constexpr int warpSize = 32;

// Keep the first thing that is wrong; the launch returns it.
#define EMULATION_FAIL(...)                                                                       \
  do {                                                                                            \
    if (!emulation_error[0]) snprintf(emulation_error, sizeof emulation_error, __VA_ARGS__);      \
  } while (0)

// ---- types

#define EMULATION_VECTOR(type, name, align2, align4)                                              \
  struct __align__(align2) name##2 {                                                              \
    type x, y;                                                                                    \
  };                                                                                              \
  struct name##3 {                                                                                \
    type x, y, z;                                                                                 \
  };                                                                                              \
  struct __align__(align4) name##4 {                                                              \
    type x, y, z, w;                                                                              \
  };                                                                                              \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                         \
  static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }              \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EMULATION_VECTOR(signed char, char, 2, 4)
EMULATION_VECTOR(unsigned char, uchar, 2, 4)
EMULATION_VECTOR(short, short, 4, 8)
EMULATION_VECTOR(unsigned short, ushort, 4, 8)
EMULATION_VECTOR(int, int, 8, 16)
EMULATION_VECTOR(unsigned, uint, 8, 16)
EMULATION_VECTOR(float, float, 8, 16)
EMULATION_VECTOR(long long, longlong, 16, 16)
EMULATION_VECTOR(unsigned long long, ulonglong, 16, 16)
EMULATION_VECTOR(double, double, 16, 16)

template <class To, class From> static inline To emulation_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __int_as_float(int x) { return emulation_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulation_bits<float>(x); }
static inline int __float_as_int(float x) { return emulation_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulation_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return emulation_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return emulation_bits<long long>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)((unsigned long long)x * y >> 32);
}
static inline double __drcp_rn(double x) { return 1.0 / x; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
#define EMULATION_LESSER(type)                                                                    \
  static inline type min(type a, type b) { return b < a ? b : a; }                                \
  static inline type max(type a, type b) { return a < b ? b : a; }
EMULATION_LESSER(int) EMULATION_LESSER(unsigned)
EMULATION_LESSER(long long) EMULATION_LESSER(unsigned long long)
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

// ---- memory

static inline void emulation_aligned(const void *place, emulation_size size) {
  if ((emulation_size)place % size)
    EMULATION_FAIL("An access of %zu bytes at an address that is %zu bytes behind a multiple.",
                   size, (emulation_size)place % size);
}
// What a text reads as something larger, such as a pack, lies as that has to.
template <class P, class T> static inline P *emulation_at(T *place) {
  emulation_aligned(place, alignof(P));
  return reinterpret_cast<P *>(place);
}
template <class T> static inline T emulation_load(const T *place) {
  emulation_aligned(place, alignof(T));
  T value;
  __builtin_memcpy(&value, place, sizeof value);
  return value;
}
template <class T> static inline void emulation_store(T *place, emulation_same<T> value) {
  emulation_aligned(place, alignof(T));
  __builtin_memcpy(place, &value, sizeof value);
}
#define EMULATION_LOAD(name)                                                                      \
  template <class T> static inline T name(const T *place) { return emulation_load(place); }
#define EMULATION_STORE(name)                                                                     \
  template <class T> static inline void name(T *place, emulation_same<T> value) {             \
    emulation_store(place, value);                                                                \
  }
EMULATION_LOAD(__ldg) EMULATION_LOAD(__ldca) EMULATION_LOAD(__ldcs) EMULATION_LOAD(__ldcg)
EMULATION_LOAD(__ldlu) EMULATION_LOAD(__ldcv)
EMULATION_STORE(__stwb) EMULATION_STORE(__stcs) EMULATION_STORE(__stcg) EMULATION_STORE(__stwt)

// A fiber gives up its turn only where it waits, so that everything else is atomic.
#define EMULATION_ATOMIC(name, result)                                                            \
  template <class T> static inline T name(T *place, emulation_same<T> value) {                \
    const T old = *place;                                                                         \
    *place = (T)(result);                                                                         \
    return old;                                                                                   \
  }
EMULATION_ATOMIC(atomicAdd, old + value)
EMULATION_ATOMIC(atomicSub, old - value)
EMULATION_ATOMIC(atomicExch, value)
EMULATION_ATOMIC(atomicMin, value < old ? value : old)
EMULATION_ATOMIC(atomicMax, old < value ? value : old)
EMULATION_ATOMIC(atomicOr, old | value)
EMULATION_ATOMIC(atomicAnd, old &value)
template <class T>
static inline T atomicCAS(T *place, emulation_same<T> expected, emulation_same<T> value) {
  const T old = *place;
  if (old == expected) *place = value;
  return old;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

// ---- order

// Return the n-th of `size` in this order: up, down, or mixed up differently for every `salt`.
static inline unsigned emulation_pick(unsigned n, unsigned size, unsigned salt = 0) {
  if (emulation_order == 0) return n;
  if (emulation_order == 1) return size - 1 - n;
  unsigned long long mixed = (emulation_order + 0x9e3779b97f4a7c15ull * (salt + 1));
  mixed = (mixed ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9ull;
  unsigned factor = (unsigned)((mixed >> 33) % size) | 1;
  for (;; factor += 2) {
    unsigned a = factor, b = size;
    while (b) {
      const unsigned rest = a % b;
      a = b, b = rest;
    }
    if (a == 1) break;
  }
  return (unsigned)(((unsigned long long)n * factor + (mixed >> 7) % size) % size);
}

static inline Dim3 emulation_place(unsigned n, const Dim3 &size) {
  return {n % size.x, n / size.x % size.y, n / size.x / size.y};
}

#ifdef EMULATION_TOGETHER
#include "cooperation.h"
#else
struct EmulationStacks {
  explicit EmulationStacks(unsigned) {}
};
template <class F> static bool emulation_block(unsigned, F run) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  for (unsigned n = 0; n < threads; ++n) {
    threadIdx = emulation_place(emulation_pick(n, threads), blockDim);
    run();
  }
  return !emulation_error[0];
}
#endif

// ---- launch

template <class... A, emulation_size... N>
static void emulation_call(void (*kernel)(A...), void **arguments, emulation_numbers<N...>) {
  kernel(*static_cast<typename emulation_plain<A>::type *>(arguments[N])...);
}

// Run a kernel for every thread; arguments are pointers to values, as the driver takes them.
// Returns what went wrong, or an empty text.
template <class... A>
static const char *emulation_launch(void (*kernel)(A...), const unsigned *grid,
                                    const unsigned *block, void **arguments, unsigned shared) {
  emulation_error[0] = 0;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  [[maybe_unused]] const EmulationStacks stacks(block[0] * block[1] * block[2]);
  for (unsigned n = 0; n < blocks && !emulation_error[0]; ++n) {
    blockIdx = emulation_place(emulation_pick(n, blocks), gridDim);
    if (!emulation_block(shared, [&] {
          emulation_call(kernel, arguments, emulation_numbers<__integer_pack(sizeof...(A))...>{});
        }))
      break;
  }
  return emulation_error;
}

template <class... A> static int emulation_sizes(void (*)(A...), unsigned *sizes) {
  const unsigned all[] = {sizeof(A)..., 0};
  __builtin_memcpy(sizes, all, sizeof...(A) * sizeof *all);
  return sizeof...(A);
}

// `sizes_<kernel>` fills in the size of each parameter and returns their number.
#define EMULATION_ENTRY(name)                                                                     \
  extern "C" const char *launch_##name(const unsigned *grid, const unsigned *block,               \
                                       void **arguments, unsigned shared) {                       \
    return emulation_launch(name, grid, block, arguments, shared);                                \
  }                                                                                               \
  extern "C" int sizes_##name(unsigned *sizes) { return emulation_sizes(name, sizes); }
