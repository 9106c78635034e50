"""What functions found out about nodes, kept with the nodes, which never change."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["Remembering", "hashed_once", "remembered"]

_Node = TypeVar("_Node", bound="Remembering")
_Rest = ParamSpec("_Rest")
_Found = TypeVar("_Found")


class Remembering:
    """Room of a frozen dataclass with slots for results: no part of its value, nor pickled."""

    __slots__ = ("found",)
    found: dict[object, Any]


def remembered(
    function: Callable[Concatenate[_Node, _Rest], _Found],
) -> Callable[Concatenate[_Node, _Rest], _Found]:
    """Return the function of a node, evaluated once for each node and further arguments.

    A node is known by itself: neither its hash nor one equal to it is looked for. The further
    arguments are given by position, and can be hashed.
    """

    @wraps(function)
    def once(node: _Node, *rest: _Rest.args, **named: _Rest.kwargs) -> _Found:
        key = (function, *rest)
        try:
            return node.found[key]
        except AttributeError:
            object.__setattr__(node, "found", {})
        except KeyError:
            pass
        found = node.found[key] = function(node, *rest, **named)
        return found

    return once


def hashed_once(kind: type[_Node]) -> type[_Node]:
    """Return the class of nodes, whose hash, which takes all that is inside, is computed once."""
    type.__setattr__(kind, "__hash__", remembered(kind.__hash__))
    return kind
