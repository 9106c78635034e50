// A block a tree, packed by the levels of its branches: a thread a branch, a barrier a level.
//
// Constants: REAL, THREADS. Trees of a batch lie behind each other; `heads` has, for each tree and
// one more, where its levels, its branches, its children and its nodes begin. Indices in the other
// arrays count from there. `given` has two elements a branch; d is room; x may not be `rhs`.
typedef REAL real;

struct Head {
  long long level, branch, child, node;
};

extern "C" __global__ void __launch_bounds__(THREADS) branches(
    const long long* __restrict__ heads, const long long* __restrict__ starts,
    const long long* __restrict__ counts, const long long* __restrict__ firsts,
    const long long* __restrict__ lengths, const long long* __restrict__ hangs,
    const long long* __restrict__ froms, const long long* __restrict__ children,
    const real* __restrict__ diagonal, const real* __restrict__ upper,
    const real* __restrict__ rhs, real* d, real* x, real* given) {
  const long long tree = blockIdx.x;
  const Head head = {heads[4 * tree], heads[4 * tree + 1], heads[4 * tree + 2],
                     heads[4 * tree + 3]};
  const int levels = (int)(heads[4 * tree + 4] - head.level);
  if (levels == 0) return;
  const long long nodes = heads[4 * tree + 7] - head.node;
  const real* u = upper + head.node;
  d += head.node;
  x += head.node;
  given += 2 * head.branch;
  for (long long at = threadIdx.x; at < nodes; at += THREADS) {
    d[at] = diagonal[head.node + at];
    x[at] = rhs[head.node + at];
  }
  __syncthreads();
  const long long root = hangs[heads[4 * tree + 5] - 1];
  if (d[root] == 0) return;
  __syncthreads();
  for (int level = 0; level < levels; ++level) {
    const long long start = starts[head.level + level], count = counts[head.level + level];
    const bool last = level == levels - 1;
    for (long long lane = threadIdx.x; lane < count; lane += THREADS) {
      const long long branch = firsts[head.level + level] + lane;
      const int length = (int)lengths[head.branch + branch];
      long long at = start + lane;
      real dn = d[at], xn = x[at];
      // A tree's ends of children are one more than its branches.
      const long long* from = froms + head.branch + tree + branch;
      for (long long k = from[0]; k < from[1]; ++k) {
        const long long child = children[head.child + k];
        dn -= given[2 * child];
        xn -= given[2 * child + 1];
      }
      for (int k = 0; k < length; ++k, at += count) {
        const bool end = k == length - 1;
        if (last && end) {
          d[at] = dn;
          x[at] = xn;
          break;
        }
        const real up = u[at], w = real(1) / dn;
        const real f = up * w, g = xn * w;
        d[at] = f;
        x[at] = g;
        if (end) {
          given[2 * branch] = f * up;
          given[2 * branch + 1] = g * up;
        } else {
          dn = d[at + count] - f * up;
          xn = x[at + count] - g * up;
        }
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) x[root] = x[root] * (real(1) / d[root]);
  __syncthreads();
  for (int level = levels - 1; level >= 0; --level) {
    const long long start = starts[head.level + level], count = counts[head.level + level];
    for (long long lane = threadIdx.x; lane < count; lane += THREADS) {
      const long long branch = firsts[head.level + level] + lane;
      const int length = (int)lengths[head.branch + branch];
      long long at = start + lane + (length - 1) * count;
      real before = x[hangs[head.branch + branch]];
      for (int k = 0; k < length; ++k, at -= count) {
        if (at == root) continue;
        before = x[at] - d[at] * before;
        x[at] = before;
      }
    }
    __syncthreads();
  }
}
