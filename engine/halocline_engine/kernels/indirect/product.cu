// Products of a sparse matrix with many fields: a thread computes one row for LEVELS members of the
// batch, so that weights and columns are read once for all of them. Terms are added in order.
enum Form { PLAIN, RELATIVE, DEPARTURE };

template <typename Value, typename Index, int FORM, bool RENORMALISE, int LEVELS>
__device__ __forceinline__ void
product(const Value *__restrict__ field, Value *__restrict__ out, const Index *__restrict__ starts,
        const Index *__restrict__ columns, const double *__restrict__ weights, const int rows,
        const long long cells, const int batch, const double least) {
  const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const int first = (int)blockIdx.y * LEVELS;
  field += first * cells;
  out += first * (long long)rows + row;
  double sum[LEVELS], valid[LEVELS], own[LEVELS];
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
    if (RENORMALISE && valid[l] != all)
      value = valid[l] != 0.0 && valid[l] >= least * all ? value * (all / valid[l])
                                                         : __longlong_as_double(0x7ff8000000000000ll);
    if (begin == end) value = __longlong_as_double(0x7ff8000000000000ll);
    if (FORM == DEPARTURE) value = own[l] + value;
    out[l * (long long)rows] = (Value)value;
  }
}
