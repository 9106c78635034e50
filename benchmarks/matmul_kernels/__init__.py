"""Matrix products by hand-written CUDA kernels, to compare with cuBLAS, which the engine calls."""
