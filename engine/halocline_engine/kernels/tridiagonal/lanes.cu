// Rows of contiguous systems as the lanes of a warp copy and read them.
//
// Constants: ROWS_A_LANE, VECTOR (elements that a lane reads at once), COPIED (elements that are
// copied at once).
#define R ROWS_A_LANE

template <int BYTES> struct Words;
template <> struct Words<4> { typedef float type; };
template <> struct Words<8> { typedef float2 type; };
template <> struct Words<16> { typedef float4 type; };
typedef Words<COPIED * sizeof(real)>::type Copied;
typedef Words<sizeof(real)>::type Single;
template <int COUNT> struct alignas(COUNT * sizeof(real)) Several { real v[COUNT]; };

// Read the rows of a lane, which begin at `stage`.
static __device__ __forceinline__ void own(const real* stage, real (&into)[R]) {
#pragma unroll
  for (int r = 0; r < R; r += VECTOR) {
    const Several<VECTOR> some = *(const Several<VECTOR>*)(stage + r);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) into[r + e] = some.v[e];
  }
}
