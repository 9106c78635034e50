// Combines the elements of each group, in the order of the group, into one place.
// Arrays are indexed [batch, element, value]; a thread computes one value of one place.
enum Operation { LAST, SUM, MIN, MAX };

template <typename Value> struct Sum {
  static __device__ __forceinline__ Value of(Value a, Value b) { return a + b; }
};
// Whole numbers wrap around, as they do on the other targets.
template <> struct Sum<int> {
  static __device__ __forceinline__ int of(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
};
template <> struct Sum<long long> {
  static __device__ __forceinline__ long long of(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
  }
};

template <typename Value, typename Index, int OPERATION>
__device__ __forceinline__ void
combine(const Value *__restrict__ source, Value *__restrict__ target,
        const Index *__restrict__ places, const Index *__restrict__ starts,
        const Index *__restrict__ order, const long long source_step,
        const long long target_step, const long long groups, const int values) {
  const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= groups * values) return;
  const long long group = p / values;
  const long long value = p - group * values;
  source += blockIdx.y * source_step + value;
  target += blockIdx.y * target_step + value;
  const Index end = __ldg(starts + group + 1);
  Index entry = __ldg(starts + group);
  Value held = __ldg(source + (long long)__ldg(order + entry) * values);
  for (++entry; entry < end; ++entry) {
    const Value other = __ldg(source + (long long)__ldg(order + entry) * values);
    if (OPERATION == SUM) held = Sum<Value>::of(held, other);
    else if (OPERATION == MIN) held = other < held || other != other ? other : held;
    else if (OPERATION == MAX) held = other > held || other != other ? other : held;
    else held = other;
  }
  target[(long long)__ldg(places + group) * values] = held;
}
