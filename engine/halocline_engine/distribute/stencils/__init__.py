"""Stencil programs: request, plan, order of blocks, passes."""
