"""Storage of temporaries: registers, shared memory of thread blocks, arrays."""
