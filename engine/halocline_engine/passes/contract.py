"""Make sums with a product fused multiply-adds: `a * b + c` is rounded once.

After this, no sum or difference of floating-point numbers has a product as an operand, but one that
was not the first of two. Which product is fused depends on the program alone, never on a target or
a schedule: the left operand if it is a product, otherwise the right one. Negation is exact, so a
difference is the sum with what is negated.
"""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.ir.nodes import FMA, Binary, Call, Expr, Program, Unary
from halocline_engine.ir.walk import rewrite_body

__all__ = ["contract"]


def contract(program: Program) -> Program:
    """Return the program with fused multiply-adds."""
    computations = tuple(
        replace(
            one,
            blocks=tuple(
                replace(block, body=rewrite_body(block.body, _fused)) for block in one.blocks
            ),
        )
        for one in program.computations
    )
    return replace(program, computations=computations)


def _fused(expr: Expr) -> Expr:
    match expr:
        case Binary("+" | "-" as sign, Binary("*", a, b), c, dtype) if dtype.is_float:
            return Call(FMA, (a, b, c if sign == "+" else Unary("-", c, dtype)), dtype)
        case Binary("+" | "-" as sign, c, Binary("*", a, b), dtype) if dtype.is_float:
            return Call(FMA, (a if sign == "+" else Unary("-", a, dtype), b, c), dtype)
        case _:
            return expr
