// The diagonal and the right-hand side of an implicit step of the cable equation, a thread a node.
//
// Constants: REAL, THREADS.
typedef REAL real;

extern "C" __global__ void __launch_bounds__(THREADS) assemble(
    const real* __restrict__ axial, const real* __restrict__ capacitance,
    const real* __restrict__ area, const real* __restrict__ conductivity,
    const real* __restrict__ current, const real* __restrict__ voltage,
    real* __restrict__ diagonal, real* __restrict__ rhs, const long long nodes, const real dt) {
  const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (i >= nodes) return;
  if (dt == 0) {
    diagonal[i] = 0;
    rhs[i] = voltage[i];
    return;
  }
  const real scale = real(1e-3), square = scale * area[i];
  const real inertia = scale * capacitance[i] / dt + square * conductivity[i];
  diagonal[i] = inertia + axial[i];
  rhs[i] = inertia * voltage[i] - square * current[i];
}
