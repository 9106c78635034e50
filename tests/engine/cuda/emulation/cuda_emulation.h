// Just enough of CUDA C++ to run generated kernels on the host, one thread after the other.
//
// The kernels use no barrier and no shared memory, so any order of threads is a possible one:
// `emulation_order` chooses between ascending and descending, and a kernel whose threads depend on
// each other gives different results.
#pragma once
#include <utility>

// The C library's functions are declared one by one: <cmath> takes longer to compile than a kernel.
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

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct Dim3 {
  unsigned x, y, z;
};
static Dim3 threadIdx, blockIdx, blockDim, gridDim;
extern "C" int emulation_order;
int emulation_order = 0;

static inline float __int_as_float(int bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
static inline double __longlong_as_double(long long bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

static inline unsigned emulation_step(unsigned n, unsigned size) {
  return emulation_order ? size - 1 - n : n;
}

template <class F> static void emulation_each(Dim3 &place, const Dim3 &size, F run) {
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) {
        place = {emulation_step(x, size.x), emulation_step(y, size.y), emulation_step(z, size.z)};
        run();
      }
}

template <class... A, std::size_t... N>
static void emulation_call(void (*kernel)(A...), void **arguments, std::index_sequence<N...>) {
  kernel(*static_cast<std::remove_reference_t<A> *>(arguments[N])...);
}

// Run a kernel for every thread; arguments are pointers to values, as the driver takes them.
template <class... A>
static void emulation_launch(void (*kernel)(A...), const unsigned *grid, const unsigned *block,
                            void **arguments) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  emulation_each(blockIdx, gridDim, [&] {
    emulation_each(threadIdx, blockDim,
                   [&] { emulation_call(kernel, arguments, std::index_sequence_for<A...>{}); });
  });
}

template <class... A> static int emulation_sizes(void (*)(A...), unsigned *sizes) {
  const unsigned all[] = {sizeof(A)...};
  __builtin_memcpy(sizes, all, sizeof all);
  return sizeof...(A);
}

// `sizes_<kernel>` fills in the size of each parameter and returns their number.
#define EMULATION_ENTRY(name)                                                                     \
  extern "C" void launch_##name(const unsigned *grid, const unsigned *block, void **arguments) {  \
    emulation_launch(name, grid, block, arguments);                                               \
  }                                                                                               \
  extern "C" int sizes_##name(unsigned *sizes) { return emulation_sizes(name, sizes); }
