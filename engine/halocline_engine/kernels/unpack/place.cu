// Cells of chunks are brought to where they are used, each by one thread; see problem.py.
//
// WIDTH is the bytes of an element. Blocks of one row of the grid take turns with a piece.
struct Piece {
  long long table, block, spread, into;
  long long chunk[4], first[4], size[4], steps[4];
};

#if WIDTH == 1
typedef unsigned char Word;
#elif WIDTH == 2
typedef unsigned short Word;
#elif WIDTH == 4
typedef unsigned int Word;
#else
typedef unsigned long long Word;
#endif

extern "C" __global__ void place(const Piece *__restrict__ pieces) {
  const Piece piece = pieces[blockIdx.y];
  const unsigned cells = piece.size[0] * piece.size[1] * piece.size[2] * piece.size[3];
  const unsigned last = piece.size[3], third = piece.size[2], second = piece.size[1];
  const unsigned block = piece.block;
  const unsigned char *const *table = (const unsigned char *const *)piece.table;
  for (unsigned cell = blockIdx.x * blockDim.x + threadIdx.x; cell < cells;
       cell += gridDim.x * blockDim.x) {
    unsigned rest = cell / last;
    const long long d = cell - rest * last;
    unsigned next = rest / third;
    const long long c = rest - next * third;
    rest = next / second;
    const long long b = next - rest * second, a = rest;
    const unsigned element =
        (((piece.first[0] + a) * piece.chunk[1] + piece.first[1] + b) * piece.chunk[2] +
         piece.first[2] + c) *
            piece.chunk[3] +
        piece.first[3] + d;
    const unsigned number = element / block;
    const long long at = (element - number * block) * piece.spread;
    Word word = 0;
    for (int byte = 0; byte < WIDTH; ++byte)
      word |= (Word)table[number * WIDTH + byte][at] << (8 * byte);
    const long long into =
        a * piece.steps[0] + b * piece.steps[1] + c * piece.steps[2] + d * piece.steps[3];
    *(Word *)(piece.into + into) = word;
  }
}
