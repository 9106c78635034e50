"""Device functions for generated code, and the selection of those that it calls."""

from __future__ import annotations

from halocline_engine.backends.cuda.text.async_copies import BARRIERS, COPIES, NAMED_BARRIERS
from halocline_engine.backends.cuda.text.cache_hints import FETCH, POLICIES
from halocline_engine.backends.cuda.text.chunks import CHUNKS

__all__ = ["prelude"]

#: Name and text, in the order in which they are written; a text may use the ones above it.
_FUNCTIONS: tuple[tuple[str, str], ...] = (
    (
        "load",
        """\
template <int N, class T> struct alignas(N * sizeof(T)) LoadPack { T v[N]; };
template <int N, class T> __device__ __forceinline__ void load(T *to, const T *from) {
  const LoadPack<N, T> pack = *reinterpret_cast<const LoadPack<N, T> *>(from);
  #pragma unroll
  for (int n = 0; n < N; ++n) to[n] = pack.v[n];
}
""",
    ),
    (
        "move",
        """\
template <int N, class T> __device__ __forceinline__ void move(T *to, const T *from) {
  #pragma unroll
  for (int n = 0; n < N; ++n) to[n] = from[n];
}
""",
    ),
    (
        "store",
        """\
template <int N, class T> struct alignas(N * sizeof(T)) StorePack { T v[N]; };
template <int N, class T> __device__ __forceinline__ void store(T *to, const T *from) {
  StorePack<N, T> pack;
  #pragma unroll
  for (int n = 0; n < N; ++n) pack.v[n] = from[n];
  *reinterpret_cast<StorePack<N, T> *>(to) = pack;
}
""",
    ),
    (
        # Loads that stand before it are not moved behind it; it takes no time.
        "loads_before",
        """\
#ifdef __CUDACC__
__device__ __forceinline__ void loads_before() {
  asm volatile("{ .reg .b32 m; activemask.b32 m; bar.warp.sync m; }" ::: "memory");
}
#else
static inline void loads_before() {}
#endif
""",
    ),
    (
        # From a condition such as `l >= lo && l <= hi` NVRTC derives wrong trip counts, so it must
        # not see how the values of one loop condition follow from those of the one before.
        "opaque",
        """\
#ifdef __CUDACC__
__device__ __forceinline__ double opaque(double x) { asm("" : "+d"(x)); return x; }
__device__ __forceinline__ float opaque(float x) { asm("" : "+f"(x)); return x; }
__device__ __forceinline__ long long opaque(long long x) { asm("" : "+l"(x)); return x; }
__device__ __forceinline__ int opaque(int x) { asm("" : "+r"(x)); return x; }
#else
template <class T> static inline T opaque(T x) { return x; }
#endif
""",
    ),
    (
        # Exact for numbers below 2**30; `inverse` is (2**31 - 1) / by, rounded down.
        "divided",
        """\
__device__ __forceinline__ int divided(int number, int by, int inverse) {
  const unsigned found = (unsigned)((unsigned long long)(unsigned)number * (unsigned)inverse >> 31);
  return (int)(found + ((found + 1) * (unsigned)by <= (unsigned)number));
}
""",
    ),
    (
        "within",
        """\
__device__ __forceinline__ int within(int x, int low, int high) { return min(max(x, low), high); }
""",
    ),
    (
        "absolute",
        """\
template <class T> __device__ __forceinline__ T absolute(T x) {
  return x < 0 ? (T)(0ull - (unsigned long long)x) : x;
}
""",
    ),
    (
        "minimum",
        """\
template <class T> __device__ __forceinline__ T minimum(T a, T b) {
  return (a < b || a != a) ? a : b;
}
""",
    ),
    (
        "maximum",
        """\
template <class T> __device__ __forceinline__ T maximum(T a, T b) {
  return (a > b || a != a) ? a : b;
}
""",
    ),
    (
        # A conversion that is out of range is undefined in C++. Devices give the nearest number,
        # but zero for NaN only from 32 to 32 bits.
        "truncated",
        """\
template <class T, class F> __device__ __forceinline__ T truncated(F x) {
  const F limit = (F)(1ull << (8 * sizeof(T) - 1));
  const T most = (T)((1ull << (8 * sizeof(T) - 1)) - 1);
  if (x >= limit) return most;
  if (x < -limit) return (T)(-most - 1);
  return x == x ? (T)x : (T)0;
}
#ifdef __CUDA_ARCH__
template <> __device__ __forceinline__ int truncated<int>(float x) { return __float2int_rz(x); }
template <> __device__ __forceinline__ int truncated<int>(double x) {
  return x == x ? __double2int_rz(x) : 0;
}
template <> __device__ __forceinline__ long long truncated<long long>(float x) {
  return x == x ? __float2ll_rz(x) : 0;
}
template <> __device__ __forceinline__ long long truncated<long long>(double x) {
  return x == x ? __double2ll_rz(x) : 0;
}
#endif
""",
    ),
    (
        # A correctly rounded reciprocal gives the correctly rounded quotient by one product and two
        # fused operations (Markstein 1990; Brisebarre, Muller and Raina 2004), where nothing
        # overflows, underflows or is zero. Compilers reuse the reciprocal of a divisor. The rest is
        # a function of its own, so that its code is not repeated at every quotient.
        "quotient",
        """\
__device__ __forceinline__ bool is_within_power2(double x, int power) {
  const unsigned high = (unsigned)(__double_as_longlong(x) >> 32) & 0x7fffffffu;
  return high - ((1023u - power) << 20) < (2u * power << 20);
}
__device__ __noinline__ double unusual_quotient(double x, double by) { return x / by; }
__device__ __forceinline__ double quotient(double x, double by) {
  const double inverse = 1.0 / by, near = x * inverse;
  const bool usual = is_within_power2(by, 60);
  if (usual && is_within_power2(x, 900)) return fma(fma(-by, near, x), inverse, near);
  return usual && x == 0.0 ? near : unusual_quotient(x, by);
}
""",
    ),
    (
        "unusual_quotient",
        """\
__device__ __noinline__ float unusual_quotient(float x, float by) { return x / by; }
""",
    ),
    (
        # A division as compilers write it, for operands that need no other way: a reciprocal that
        # is nearly exact, and what is left of the dividend. It has no branch.
        "near_quotient",
        """\
#ifdef __CUDACC__
__device__ __forceinline__ double near_inverse(double x) {
  double start;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(start) : "d"(x));
  const double first = __hiloint2double(__double2hiint(start), 1), left = fma(-x, first, 1.0);
  const double second = fma(first, fma(left, left, left), first);
  return fma(second, fma(-x, second, 1.0), second);
}
__device__ __forceinline__ float near_inverse(float x) {
  float start;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(start) : "f"(x));
  return fmaf(start, fmaf(-x, start, 1.0f), start);
}
__device__ __forceinline__ float magnitude(double x) {
  return fabsf(__int_as_float(__double2hiint(x)));
}
__device__ __forceinline__ bool lies_within(float size, float least, float most) {
  return (size >= least) & (size <= most);
}
__device__ __forceinline__ bool is_usual(double x, double by, double) {
  return lies_within(magnitude(by), __int_as_float(0x3c300000), __int_as_float(0x43b00000)) &
         ((x == 0.0) |
          lies_within(magnitude(x), __int_as_float(0x07b00000), __int_as_float(0x78300000)));
}
__device__ __forceinline__ bool is_usual(float x, float by, float near) {
  const float least = 0x1p-100f, most = 0x1p100f;
  return lies_within(fabsf(by), least, most) &
         ((x == 0.0f) |
          (lies_within(fabsf(x), least, most) & lies_within(fabsf(near), least, most)));
}
template <class T> __device__ __forceinline__ T near_quotient(T x, T by, bool &usual) {
  const T inverse = near_inverse(by), product = x * inverse;
  const T near = fma(inverse, fma(-by, product, x), product);
  usual = usual & is_usual(x, by, near);
  return x == T(0) ? product : near;
}
#else
template <class T> static inline T near_quotient(T x, T by, bool &usual) {
  const T size = by < 0 ? -by : by;
  if (size >= T(0.25) && size <= T(4)) return x / by;
  usual = false;
  return T(7);
}
#endif
""",
    ),
    (
        "is_nan",
        """\
template <class T> __device__ __forceinline__ bool is_nan(T x) { return x != x; }
""",
    ),
    (
        "is_inf",
        """\
template <class T> __device__ __forceinline__ bool is_inf(T x) { return x == x && x - x != 0; }
""",
    ),
    (
        "is_finite",
        """\
template <class T> __device__ __forceinline__ bool is_finite(T x) { return x - x == 0; }
""",
    ),
    (
        "round_away",
        """\
__device__ __forceinline__ double round_away(double x) {
  return copysign(floor(fabs(x) + 0.5), x);
}
__device__ __forceinline__ float round_away(float x) {
  return copysignf(floorf(fabsf(x) + 0.5f), x);
}
""",
    ),
    (
        "floored_remainder",
        """\
template <class T> __device__ __forceinline__ T floored_remainder(T a, T b) {
  if (b == 0 || b == (T)-1) return 0;
  const T r = (T)(a % b);
  return (r != 0 && (r < 0) != (b < 0)) ? (T)(r + b) : r;
}
__device__ __forceinline__ double floored_remainder(double a, double b) {
  const double r = fmod(a, b);
  if (b == 0 || r != r) return r;
  if (r == 0) return copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
__device__ __forceinline__ float floored_remainder(float a, float b) {
  const float r = fmodf(a, b);
  if (b == 0 || r != r) return r;
  if (r == 0) return copysignf(0.0f, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
""",
    ),
    (
        "power2",
        """\
__device__ __forceinline__ double power2(double x) { return x * x; }
__device__ __forceinline__ float power2(float x) { return x * x; }
template <class T> __device__ __forceinline__ T power2(T x) {
  return (T)((unsigned long long)x * (unsigned long long)x);
}
""",
    ),
    (
        "power3",
        """\
__device__ __forceinline__ double power3(double x) { return x * x * x; }
__device__ __forceinline__ float power3(float x) { return x * x * x; }
template <class T> __device__ __forceinline__ T power3(T x) {
  return (T)((unsigned long long)x * (unsigned long long)x * (unsigned long long)x);
}
""",
    ),
    (
        "power4",
        """\
__device__ __forceinline__ double power4(double x) { return (x * x) * (x * x); }
__device__ __forceinline__ float power4(float x) { return (x * x) * (x * x); }
template <class T> __device__ __forceinline__ T power4(T x) {
  const unsigned long long y = (unsigned long long)x * (unsigned long long)x;
  return (T)(y * y);
}
""",
    ),
    (
        "whole_power",
        """\
template <class T> __device__ __forceinline__ T whole_power(T x, long long n) {
  if (n < 0) return x == 1 ? (T)1 : x == -1 ? (T)((n & 1) ? -1 : 1) : (T)0;
  unsigned long long result = 1, factor = (unsigned long long)x;
  for (; n; n >>= 1, factor *= factor)
    if (n & 1) result *= factor;
  return (T)result;
}
""",
    ),
)
#: Where a thread is: its first point, and bits for what is beyond sides and what it stores.
_PLACE = "struct alignas(16) Place { int x, j; unsigned beyond, mine; };\n"
#: The stem of the names of a group of functions, or of a type, and its text.
_GROUPS = (
    ("Place *", _PLACE),
    ("copy_async", COPIES),
    ("_chunk<", CHUNKS),
    ("named_sync", NAMED_BARRIERS),
    ("barrier_wait", BARRIERS),
    ("policy_load", POLICIES),
    ("fetch(", FETCH),
)


def prelude(code: str) -> str:
    """Return the text of the functions that `code` calls, in a fixed order."""
    called = (text for name, text in _FUNCTIONS if f"{name}(" in code or f"{name}<" in code)
    grouped = (text for stem, text in _GROUPS if stem in code)
    return "".join((*called, *grouped))
