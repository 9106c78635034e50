"""Calls of stencils on arrays: the checks of their arguments, and what was checked before."""
