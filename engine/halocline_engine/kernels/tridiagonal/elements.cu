// The type of a batch's elements, and where its systems begin.
//
// Constants: REAL.
typedef REAL real;

// The first element of a system, in a batch indexed [outer, row, inner].
static __device__ __forceinline__ long long first_of(long long system, int rows, int inner) {
  const long long outer = system / inner;
  return outer * inner * rows + (system - outer * inner);
}
