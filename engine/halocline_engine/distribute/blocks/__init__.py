"""The steps of a stencil program on one block, in the memory of a target."""
