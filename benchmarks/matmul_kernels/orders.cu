// A thread computes one element of a product, all threads in one of three orders: by rows, by tiles
// of some rows and columns, or down columns of the result. What they read is left to the caches.
template <typename Value>
__device__ __forceinline__ Value added(const Value x, const Value y, const Value sum);
template <>
__device__ __forceinline__ float added(const float x, const float y, const float sum) {
  return __fmaf_rn(x, y, sum);
}
template <>
__device__ __forceinline__ double added(const double x, const double y, const double sum) {
  return __fma_rn(x, y, sum);
}

template <typename Value>
__device__ __forceinline__ void element(const Value *__restrict__ left,
                                        const Value *__restrict__ right, Value *__restrict__ out,
                                        const long long row, const long long column,
                                        const int columns, const int inner) {
  const Value *a = left + row * inner, *b = right + column;
  Value sum = 0;
  for (int k = 0; k < inner; ++k) sum = added(__ldg(a + k), __ldg(b + (long long)k * columns), sum);
  out[row * columns + column] = sum;
}

// The order of columns: the last one may be narrower. Rows follow each other down a column.
struct Place {
  long long row, column;
};
__device__ __forceinline__ Place down_columns(const long long step, const long long rows,
                                              const long long length, const long long width) {
  const long long number = step / (rows * width), start = number * width;
  const long long wide = width < length - start ? width : length - start;
  const long long rest = step - number * rows * width, row = rest / wide;
  return {row, start + (rest - row * wide)};
}

// The order of tiles: bands of `height` rows, each of them in columns.
__device__ __forceinline__ Place by_tiles(const long long step, const long long rows,
                                          const long long length, const long long width,
                                          const long long height) {
  const long long band = step / (height * length), top = band * height;
  const long long tall = height < rows - top ? height : rows - top;
  const Place place = down_columns(step - top * length, tall, length, width);
  return {top + place.row, place.column};
}

#define ORDERS(type, suffix)                                                                      \
  extern "C" __global__ void rows_##suffix(const type *left, const type *right, type *out,        \
                                           int rows, int columns, int inner, int width,           \
                                           int height) {                                          \
    const long long step = (long long)blockIdx.x * blockDim.x + threadIdx.x;                      \
    if (step < (long long)rows * columns)                                                         \
      element(left, right, out, step / columns, step % columns, columns, inner);                  \
  }                                                                                               \
  extern "C" __global__ void columns_##suffix(const type *left, const type *right, type *out,     \
                                              int rows, int columns, int inner, int width,        \
                                              int height) {                                       \
    const long long step = (long long)blockIdx.x * blockDim.x + threadIdx.x;                      \
    if (step >= (long long)rows * columns) return;                                                \
    const Place place = down_columns(step, rows, columns, width);                                 \
    element(left, right, out, place.row, place.column, columns, inner);                           \
  }                                                                                               \
  extern "C" __global__ void tiles_##suffix(const type *left, const type *right, type *out,       \
                                            int rows, int columns, int inner, int width,          \
                                            int height) {                                         \
    const long long step = (long long)blockIdx.x * blockDim.x + threadIdx.x;                      \
    if (step >= (long long)rows * columns) return;                                                \
    const Place place = by_tiles(step, rows, columns, width, height);                             \
    element(left, right, out, place.row, place.column, columns, inner);                           \
  }
ORDERS(float, float32)
ORDERS(double, float64)
