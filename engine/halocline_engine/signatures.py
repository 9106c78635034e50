"""Arguments that several functions share, each said once: by a `TypedDict` that they unpack.

Type checkers read ``**given: Unpack[Kind]``. `unpacks` shows the same to `help()` and to
completion, and `complete` fills in what was left out.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Required,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

if TYPE_CHECKING:
    from halocline_engine.errors import ArgumentError

__all__ = [
    "Default",
    "answering",
    "complete",
    "described",
    "documents",
    "unpacks",
    "with_answers",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Given = TypeVar("_Given")
_Class = TypeVar("_Class", bound=type)


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
        return answering(function)

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

    Raises `ArgumentError`, with the way out, where an argument is unknown or missing.
    """
    found = cast("Mapping[str, Any]", given)
    taken: Mapping[str, Any] = {one.name: one.default for one in cast("Any", function).unpacked}
    for name in found:
        if name not in taken:
            from halocline_engine.interface.refusals import unknown

            raise unknown(function, name, found[name])
    made = {**taken, **found}
    missing = [name for name, value in made.items() if value is inspect.Parameter.empty]
    if missing:
        from halocline_engine.interface.refusals import refuse_missing

        raise refuse_missing(function, missing)
    return cast("_Given", made)


def answering(function: _Function) -> _Function:
    """Let a function answer calls that do not fit its signature with `ArgumentError`.

    >>> @answering
    ... def double(x: float, *, times: int = 1) -> float:
    ...     return 2.0**times * x
    >>> double(1.0, time=2)
    Traceback (most recent call last):
        ...
    halocline_engine.errors.ArgumentError: double() has no argument 'time'. Did you mean 'times'?
    """
    parameters = inspect.signature(function).parameters
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    known = parameters.keys()

    if inspect.iscoroutinefunction(function):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            error = _refusal(function, args, kwargs)
            if error is not None:
                raise error
            return await function(*args, **kwargs)

        return _marked(function, awaited)

    def called(*args: Any, **kwargs: Any) -> Any:
        if not open_ended and not kwargs.keys() <= known:
            raise _refused(function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except TypeError:
            error = _refusal(function, args, kwargs)
            if error is None:  # another call, within the function
                raise
        raise error

    return _marked(function, called)


def _marked(function: Any, called: Callable[..., Any]) -> Any:
    """Return what is called in place of a function, as the function itself is known."""
    made: Any = functools.wraps(function)(called)
    made.answers = True
    return made


def _refused(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ArgumentError:
    error = _refusal(function, args, kwargs)
    assert error is not None
    return error


def _refusal(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ArgumentError | None:
    from halocline_engine.interface.refusals import refusal  # workers make no such call

    is_method = next(iter(inspect.signature(function).parameters), "") == "self"
    return refusal(function, args[1:] if is_method else args, kwargs)


def with_answers(kind: _Class) -> _Class:
    """Let the public methods of a class, and the class itself, answer as `answering` does."""
    for name, member in list(vars(kind).items()):
        is_public = not name.startswith("_") or name == "__init__"
        if inspect.isfunction(member) and is_public and not hasattr(member, "answers"):
            setattr(kind, name, answering(member))
    return kind


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
