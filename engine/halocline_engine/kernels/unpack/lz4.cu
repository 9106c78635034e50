// Whether streams of LZ4 are whole: each is walked through by one thread, which reads the lengths of
// its sequences, and copies nothing. The rules are those of the format's text, where a decoder that
// is careful stops: a sequence ends within the stream and within the room, an offset leads to what
// was made before, and the last sequence has literals only.
//
// A stream that is not whole is replaced by an empty one, so that no decoder reads or writes
// elsewhere for it: its source is `nothing`, a byte of 0, and it makes no bytes.

// The last match begins so many bytes before the end, and the last literals are so many.
#define MATCH_LIMIT 12
#define LAST_LITERALS 5
#define SHORTEST 4

__device__ __forceinline__ bool whole(const unsigned char *source, const long long size,
                                      const long long room) {
  long long at = 0, made = 0;
  while (at < size) {
    const int token = source[at++];
    long long literals = token >> 4;
    if (literals == 15) {
      int more = 255;
      while (more == 255) {
        if (at >= size) return false;
        more = source[at++];
        literals += more;
      }
    }
    if (literals > size - at || literals > room - made) return false;
    at += literals;
    made += literals;
    if (at == size) return made == room && (made == literals || literals >= LAST_LITERALS);
    if (size - at < 2 || room - made < MATCH_LIMIT) return false;
    const int offset = source[at] | source[at + 1] << 8;
    at += 2;
    if (offset == 0 || offset > made) return false;
    long long length = (token & 15) + SHORTEST;
    if (length == 15 + SHORTEST) {
      int more = 255;
      while (more == 255) {
        if (at >= size) return false;
        more = source[at++];
        length += more;
      }
    }
    if (length > room - made - LAST_LITERALS) return false;
    made += length;
  }
  return false;
}

extern "C" __global__ void check_lz4(long long *__restrict__ sources, long long *__restrict__ sizes,
                                     const long long *__restrict__ rooms,
                                     const long long nothing, const int count) {
  const int number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= count) return;
  if (whole((const unsigned char *)sources[number], sizes[number], rooms[number])) return;
  sources[number] = nothing;
  sizes[number] = 1;
}
