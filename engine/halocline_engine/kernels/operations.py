"""Floating-point operations of solves: those of an inner row of the reference."""

from __future__ import annotations

__all__ = ["CORRECTING", "FACTORING", "PENTADIAGONAL", "SOLVING", "TREE"]

#: Of tridiagonal matrices: pivot, reciprocal, and the scaled upper band.
FACTORING = 4
#: Of tridiagonal systems with factors: three forward and two backward.
SOLVING = 5
#: Of periodic systems, what the column changes that is solved for beside the right-hand side.
CORRECTING = 2
#: Of pentadiagonal systems: twelve of elimination, four of scaling, and four backward.
PENTADIAGONAL = 20
#: Of a node of a tree: a reciprocal, six that reach its parent, and two backward.
TREE = 9
