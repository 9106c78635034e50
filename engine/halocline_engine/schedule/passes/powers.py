"""Write small constant powers as products, so that every target rounds them alike."""

from __future__ import annotations

from halocline_engine.ir.nodes import Binary, Call, Expr, Number
from halocline_engine.ir.walk import rewrite_statement
from halocline_engine.schedule.stages import Draft, Part, Stage

__all__ = ["expand_powers"]


def expand_powers(draft: Draft) -> Draft:
    """Return the draft with x**2 = x*x, x**3 = (x*x)*x and x**4 = (x*x)*(x*x)."""
    return draft.with_parts(
        tuple(
            Part(
                part.order,
                tuple(
                    Stage(s.interval, s.extent, rewrite_statement(s.statement, _expand))
                    for s in part.stages
                ),
            )
            for part in draft.parts
        )
    )


def _expand(expr: Expr) -> Expr:
    match expr:
        case Call("pow", (base, Number(exact, exponent)), dtype) if exact.is_integer:
            square = Binary("*", base, base, dtype)
            match exponent:
                case 2:
                    return square
                case 3:
                    return Binary("*", square, base, dtype)
                case 4:
                    return Binary("*", square, square, dtype)
                case _:
                    return expr
        case _:
            return expr
