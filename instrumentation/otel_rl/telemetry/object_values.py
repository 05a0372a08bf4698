"""What an object of no built-in class holds, or its text; asked for where one is recorded.

Of data classes, models of pydantic and attrs and simple namespaces these are the fields: their ``repr`` would read the
tensors in it. What a class hides from its ``repr`` stays hidden: a secret, or something large. Values are taken from
where the object keeps them, so that no descriptor and no ``__getattr__`` runs.
"""

from __future__ import annotations

from dataclasses import fields
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOTHING = object()
#: First part of the module of classes whose instances are plain values with a text of their own.
_LIBRARIES = frozenset({"datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo"})
#: Ways of the standard library to write an exception.
_OF_EXCEPTIONS: tuple[object, ...] = (BaseException.__str__, KeyError.__str__, OSError.__str__)


def text_of(value: Any) -> str | None:
    """Of the small values of the standard library, whose text is what they are; None for any other object.

    The text of those is made by code of the program. It may read a tensor, wait for a device, or be long.
    """
    kind = type(value)
    is_value = kind is type or kind is complex or kind is range or str(kind.__module__).partition(".")[0] in _LIBRARIES
    if isinstance(value, BaseException):
        is_value = (
            all(isinstance(argument, str | int | float | None) for argument in value.args)
            and kind.__str__ in _OF_EXCEPTIONS
        )
    return str(value) if is_value else None


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of ``value`` by name, without those that have no value; None for an object of another kind.

    May raise for a class that is not what it seems.
    """
    kind = type(value)
    if kind is SimpleNamespace:
        return dict(vars(value))
    if any(base.__name__ == "BaseModel" and str(base.__module__).startswith("pydantic.") for base in kind.__mro__):
        return _of_model(value, kind)
    of_dataclass, of_attrs = _static(kind, "__dataclass_fields__"), _static(kind, "__attrs_attrs__")
    if isinstance(of_dataclass, dict):
        # Those of pydantic know `exclude` too.
        of_old = _static(kind, "__pydantic_model__")
        hidden = _hidden(_static(kind, "__pydantic_fields__")) | (_hidden_by_old(of_old) if of_old else set())
        declared: Iterable[Any] = fields(kind)
    elif isinstance(of_attrs, tuple):
        hidden, declared = set(), of_attrs
    else:
        return None
    # `repr` of attrs may be a function, which masks what it is given.
    names = (field.name for field in declared if field.repr is True and field.name not in hidden)
    held = {name: _value(value, kind, name) for name in names}
    return {name: content for name, content in held.items() if content is not _NOTHING}


def _of_model(value: Any, kind: type) -> dict[str, Any]:
    held = object.__getattribute__(value, "__dict__")
    # Before pydantic 2.10 the second.
    declared = _static(kind, "__pydantic_fields__", _static(kind, "model_fields"))
    if declared is None:
        hidden = _hidden_by_old(kind)
        return {name: field for name, field in held.items() if name not in hidden}
    hidden = _hidden(declared)
    # What is computed once lies beside the fields.
    fields = {name: held[name] for name in declared if name in held and name not in hidden}
    extra = _value(value, kind, "__pydantic_extra__")
    return {**fields, **extra} if isinstance(extra, dict) else fields


def _hidden(declared: Any) -> set[str]:
    """Names of fields of pydantic that its ``repr`` or its export leaves out."""
    return {name for name, field in (declared or {}).items() if field.repr is not True or field.exclude}


def _hidden_by_old(kind: type) -> set[str]:
    """Likewise of a model of pydantic 1."""
    return _hidden({name: field.field_info for name, field in _static(kind, "__fields__").items()})


def _value(value: Any, kind: type, name: str) -> Any:
    """Return the value of an attribute, from its slot or the dictionary of the object."""
    of_class = _static(kind, name, _NOTHING)
    if type(of_class) is MemberDescriptorType:
        try:
            return of_class.__get__(value, kind)
        except AttributeError:
            return _NOTHING
    if _static(type(of_class), "__set__") is not None:
        # A property, or a descriptor of the program: it may compute, or ask a device.
        return f"<{_class_name(type(of_class))}>"
    try:
        return object.__getattribute__(value, "__dict__").get(name, of_class)
    except AttributeError:
        return of_class


def _static(kind: type, name: str, default: Any = None) -> Any:
    """Return the attribute of a class, without a question to its metaclass, which may answer to every name."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), default)


def _class_name(kind: type) -> str:
    """Return the name of a class, without a question to its metaclass."""
    return str(type.__dict__["__qualname__"].__get__(kind))
