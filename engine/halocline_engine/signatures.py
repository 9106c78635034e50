"""Arguments that several functions share, each said once: by a `TypedDict` that they unpack.

Type checkers read ``**given: Unpack[Kind]``. `unpacks` shows the same to `help()` and to
completion, and `complete` fills in what was left out.
"""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ForwardRef, Required, TypeVar, cast, get_args, get_origin

__all__ = ["Default", "complete", "described", "documents", "unpacks"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True)
class Default:
    """The value of an argument that is left out, as an annotation of its type."""

    value: object


def unpacks(kind: type, last: type = dict) -> Callable[[_Function], _Function]:
    """Let a function's signature name the arguments that its ``**given`` takes.

    Parameters
    ----------
    kind : type
        `TypedDict` of the arguments. Each is required, or annotated with a `Default`.
    last : type, optional
        One that `kind` extends, whose arguments come behind the others.

    Notes
    -----
    Required arguments come first, then those that are not in `last`.

    Examples
    --------
    >>> from typing import TypedDict, Unpack
    >>> Where = TypedDict("Where", {"target": Annotated[str, Default("auto")]}, total=False)
    >>> @unpacks(Where)
    ... def double(x: float, **given: Unpack[Where]) -> float:
    ...     return 2.0 * x
    >>> inspect.signature(double)
    <Signature (x: 'float', *, target: 'str' = 'auto') -> 'float'>

    """
    shared = getattr(last, "__annotations__", {})
    taken = [_parameter(name, hint) for name, hint in kind.__annotations__.items()]
    taken.sort(key=lambda one: (one.name in shared, one.default is not one.empty))

    def shown(function: _Function) -> _Function:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        made: Any = function
        made.__signature__ = own.replace(
            parameters=[one.replace(annotation=_text(one.annotation)) for one in (*named, *taken)],
            return_annotation=_text(own.return_annotation),
        )
        made.unpacked = tuple(taken)
        return function

    return shown


def _parameter(name: str, hint: Any) -> inspect.Parameter:
    default: Any = inspect.Parameter.empty
    if get_origin(hint) is Annotated:
        hint, given = get_args(hint)
        default = given.value
    elif get_origin(hint) is Required:
        (hint,) = get_args(hint)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _text(hint: Any) -> Any:
    """Return a type as it is written; `from __future__ import annotations` leaves it so."""
    if isinstance(hint, ForwardRef):
        return hint.__forward_arg__
    if hint is inspect.Parameter.empty or isinstance(hint, str):
        return hint
    return re.sub(r"\b(?:\w+\.)+", "", inspect.formatannotation(hint))


def complete(function: Callable[..., Any], given: _Given) -> _Given:
    """Return what a function was ``**given``, and the defaults of what was left out.

    Raises `TypeError`, in Python's words, where an argument is unknown or missing.
    """
    found = cast("Mapping[str, Any]", given)
    taken: Mapping[str, Any] = {one.name: one.default for one in cast("Any", function).unpacked}
    called = f"{function.__qualname__}()"
    for name in found:
        if name not in taken:
            close = difflib.get_close_matches(name, inspect.signature(function).parameters, 1, 0.75)
            meant = f". Did you mean '{close[0]}'?" if close else ""
            raise TypeError(f"{called} got an unexpected keyword argument '{name}'{meant}")
    made = {**taken, **found}
    missing = [f"'{name}'" for name, value in made.items() if value is inspect.Parameter.empty]
    if missing:
        raise TypeError(f"{called} missing required keyword-only arguments: {', '.join(missing)}")
    return cast("_Given", made)


def described(kind: type) -> str:
    """Return how the docstring of a `TypedDict` describes its arguments."""
    return inspect.cleandoc(kind.__doc__ or "").partition("----------\n")[2]


def documents(paragraphs: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Put paragraphs that several docstrings share where their lines ``%(name)s`` stand.

    >>> @documents({"x": "x : float"})
    ... def double(x: float) -> float:
    ...     '''Double it.
    ...
    ...     %(x)s
    ...     '''
    ...     return 2.0 * x
    >>> double.__doc__.splitlines()[2]
    '    x : float'
    """

    def paragraph(line: re.Match[str]) -> str:
        return textwrap.indent(paragraphs[line[2]].strip(), line[1])

    def documented(function: _Function) -> _Function:
        text = function.__doc__ or ""
        text = re.sub(r"^( *)%\((\w+)\)s$", paragraph, text, flags=re.MULTILINE)
        function.__doc__ = text or None
        return function

    return documented
