"""Functions compiled with the parameters of another one: Python itself binds their arguments at the call."""

from __future__ import annotations

import inspect
import keyword
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType

#: Keeps the names of a template apart from the parameters of the program.
PREFIX = "__otel_rl_"


def compiled_like(
    function: Any,
    template: str,
    words: Mapping[str, str],
    values: Mapping[str, Any],
    variables: Sequence[str],
    place: tuple[str, str],
) -> Any:
    """Compile ``template`` with the parameters and defaults of ``function``.

    Args:
        function: A function, or an object without code: then the parameters are ``*args, **kwargs``.
        template: Source with ``{name}``, ``{parameters}``, ``{arguments}``, and names for the rest. ``{forget}`` stands
            where the arguments have been handed on: a function that waits must not keep them alive.
        words: Source for names of the template.
        values: Objects for names of the template.
        variables: Names of the template that are local variables.
        place: Module and file that a traceback shows, and that programs find in the frame that called them.
    """
    code = function.__code__ if inspect.isfunction(function) else None
    signature = parameters_of(code) if code is not None else None
    parameters, arguments = signature or ("*args, **kwargs", "*args, **kwargs")
    names = {name: f"{PREFIX}{name}" for name in (*values, *variables)}
    known = {"name": f"{PREFIX}call", "parameters": parameters, "arguments": arguments, "forget": _forget(arguments)}
    source = template.format(**known, **names, **words)
    module, file = place
    namespace = {"__name__": module, **{names[name]: value for name, value in values.items()}}
    exec(compile(source, file, "exec"), namespace)  # noqa: S102 - a template of ours and names of parameters
    compiled: Any = namespace[f"{PREFIX}call"]
    if signature is not None:
        compiled.__defaults__, compiled.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return compiled


def _forget(arguments: str) -> str:
    """Statement that deletes the parameters that ``arguments`` hand on."""
    held = [argument.lstrip("*").partition("=")[0] for argument in arguments.split(", ") if argument]
    return f"del {', '.join(held)}" if held else "pass"


def parameters_of(code: CodeType) -> tuple[str, str] | None:
    """Return the parameters of ``code`` and the arguments that hand them on, as source; None when they have odd names.

    Defaults are not written: the compiled function gets those of the original.
    """
    names = list(code.co_varnames)
    positional, keywords = names[: code.co_argcount], names[code.co_argcount :][: code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    if not all(
        name.isidentifier() and not keyword.iskeyword(name) for name in names[: len(names) - len(rest)] + rest[:2]
    ):
        return None
    parameters, arguments = list(positional), list(positional)
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(f"*{rest[0]}")
        arguments.append(f"*{rest.pop(0)}")
    elif keywords:
        parameters.append("*")
    parameters += keywords
    arguments += [f"{name}={name}" for name in keywords]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parameters.append(f"**{rest[0]}")
        arguments.append(f"**{rest[0]}")
    return ", ".join(parameters), ", ".join(arguments)
