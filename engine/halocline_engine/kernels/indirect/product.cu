// Products of a sparse matrix with many fields: a thread computes one row for LEVELS members of the
// batch, so that weights and columns are read once for all of them. Terms are added in order.
// Where weights add up to another number than 0, what is left of them tells whether missing cells
// matter. Where those of some row add up to 0 (BALANCED) it does not, and members that miss a cell
// are noted, each as a bit.
enum Form { PLAIN, RELATIVE, DEPARTURE };

// What a row with missing cells is: its sum for the weight of all cells. It is NaN where it has less
// than the least share of its weight, and where there is no share: nothing is left, or the weights
// add up to 0, or those that are left have the other sign.
__device__ __forceinline__ double renormalised(const double sum, const double valid,
                                               const double all, const double least) {
  const double whole = all < 0.0 ? -all : all, left = all < 0.0 ? -valid : valid;
  return whole > 0.0 && left > 0.0 && left >= least * whole
             ? sum * (all / valid)
             : __longlong_as_double(0x7ff8000000000000ll);
}

template <typename Value, typename Index, int FORM, bool RENORMALISE, bool BALANCED, int LEVELS>
__device__ __forceinline__ void
product(const Value *__restrict__ field, Value *__restrict__ out, const Index *__restrict__ starts,
        const Index *__restrict__ columns, const double *__restrict__ weights, const int rows,
        const long long cells, const int batch, const double least) {
  const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const int first = (int)blockIdx.y * LEVELS;
  field += first * cells;
  out += first * (long long)rows + row;
  static_assert(LEVELS <= 32, "Members with missing cells are bits of one word.");
  double sum[LEVELS], valid[LEVELS], own[LEVELS];
  unsigned missing = 0;
#pragma unroll
  for (int l = 0; l < LEVELS; ++l) {
    sum[l] = valid[l] = 0.0;
    own[l] = FORM != PLAIN && first + l < batch ? (double)__ldg(field + l * cells + row) : 0.0;
  }
  double all = 0.0;
  const Index begin = __ldg(starts + row), end = __ldg(starts + row + 1);
  for (Index term = begin; term < end; ++term) {
    const double weight = __ldg(weights + term);
    const Value *cell = field + (long long)__ldg(columns + term);
    all += weight;
#pragma unroll
    for (int l = 0; l < LEVELS; ++l) {
      if (first + l >= batch) continue;
      double value = (double)__ldg(cell + l * cells);
      if (FORM != PLAIN) value = value - own[l];
      if (RENORMALISE) {
        if (value == value) {
          sum[l] = sum[l] + weight * value;
          valid[l] = valid[l] + weight;
        } else if (BALANCED) {
          missing |= 1u << l;
        }
      } else {
        sum[l] = sum[l] + weight * value;
      }
    }
  }
#pragma unroll
  for (int l = 0; l < LEVELS; ++l) {
    if (first + l >= batch) continue;
    double value = sum[l];
    if (RENORMALISE && (BALANCED ? (missing >> l & 1u) != 0 : valid[l] != all))
      value = renormalised(value, valid[l], all, least);
    if (begin == end) value = __longlong_as_double(0x7ff8000000000000ll);
    if (FORM == DEPARTURE) value = own[l] + value;
    out[l * (long long)rows] = (Value)value;
  }
}

// The same with rows in slices of 32, whose terms lie side by side: block t of the row in lane n of
// a slice is at offsets[slice] + 32 t + n. A block has BLOCK terms with successive columns, the
// first one a multiple of BLOCK, which are read in one piece.
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Piece {
  T at[N];
};

template <typename Value, typename Index, int FORM, bool RENORMALISE, bool BALANCED, int LEVELS,
          int BLOCK>
__device__ __forceinline__ void
product_sliced(const Value *__restrict__ field, Value *__restrict__ out,
               const long long *__restrict__ offsets, const int *__restrict__ lengths,
               const Index *__restrict__ columns, const double *__restrict__ weights,
               const int rows, const long long cells, const int batch, const double least) {
  typedef Piece<Value, BLOCK> Values;
  typedef Piece<double, BLOCK> Weights;
  const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const int first = (int)blockIdx.y * LEVELS;
  field += first * cells;
  out += first * (long long)rows + row;
  static_assert(LEVELS <= 32, "Members with missing cells are bits of one word.");
  double sum[LEVELS], valid[LEVELS], own[LEVELS];
  unsigned missing = 0;
#pragma unroll
  for (int l = 0; l < LEVELS; ++l) {
    sum[l] = valid[l] = 0.0;
    own[l] = FORM != PLAIN && first + l < batch ? (double)__ldg(field + l * cells + row) : 0.0;
  }
  double all = 0.0;
  const long long begin = __ldg(offsets + (row >> 5)) + (row & 31);
  const int count = __ldg(lengths + row);
  for (int t = 0; t < count; ++t) {
    const long long entry = begin + 32ll * t;
    const Weights weight = *(const Weights *)(weights + entry * BLOCK);
    const Value *const cell = field + (long long)__ldg(columns + entry);
    Values values[LEVELS];
#pragma unroll
    for (int l = 0; l < LEVELS; ++l)
      if (first + l < batch) values[l] = *(const Values *)(cell + l * cells);
#pragma unroll
    for (int b = 0; b < BLOCK; ++b) {
      all += weight.at[b];
#pragma unroll
      for (int l = 0; l < LEVELS; ++l) {
        if (first + l >= batch) continue;
        double value = (double)values[l].at[b];
        if (FORM != PLAIN) value = value - own[l];
        if (RENORMALISE) {
          if (value == value) {
            sum[l] = sum[l] + weight.at[b] * value;
            valid[l] = valid[l] + weight.at[b];
          } else if (BALANCED) {
            missing |= 1u << l;
          }
        } else {
          sum[l] = sum[l] + weight.at[b] * value;
        }
      }
    }
  }
#pragma unroll
  for (int l = 0; l < LEVELS; ++l) {
    if (first + l >= batch) continue;
    double value = sum[l];
    if (RENORMALISE && (BALANCED ? (missing >> l & 1u) != 0 : valid[l] != all))
      value = renormalised(value, valid[l], all, least);
    if (count == 0) value = __longlong_as_double(0x7ff8000000000000ll);
    if (FORM == DEPARTURE) value = own[l] + value;
    out[l * (long long)rows] = (Value)value;
  }
}
