// A row in terms of the unknown before its piece and of the next one, and the equations of the ends
// of a piece whose rows are eliminated one after the other.
struct Row {
  real left, right, value;

  __device__ __forceinline__ void eliminate(real low, real own, real high, real given) {
    const real w = real(1) / (own - low * right);
    left = -(low * left) * w;
    value = (given - low * value) * w;
    right = high * w;
  }
};

struct Ends {
  Row first, last;

  __device__ __forceinline__ void begin(real low, real own, real high, real given) {
    const real w = real(1) / own;
    first = last = {low * w, high * w, given * w};
  }

  __device__ __forceinline__ void go_on(real low, real own, real high, real given) {
    last.eliminate(low, own, high, given);
    first.value = first.value - first.right * last.value;
    first.left = first.left - first.right * last.left;
    first.right = -(first.right * last.right);
  }

  __device__ __forceinline__ void end(real low, real own, real high, real given) {
    last.eliminate(low, own, high, given);
  }

  // To an array indexed [equation, piece].
  __device__ __forceinline__ void write(real* __restrict__ ends, long long all,
                                        long long piece) const {
    ends[piece] = first.left;
    ends[all + piece] = first.right;
    ends[2 * all + piece] = first.value;
    ends[3 * all + piece] = last.left;
    ends[4 * all + piece] = last.right;
    ends[5 * all + piece] = last.value;
  }
};
