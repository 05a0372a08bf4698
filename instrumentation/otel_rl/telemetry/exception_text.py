"""An exception as attributes of a log record: type, message, stack and origin, past the user's redaction function."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core.guard import working_directory
from otel_rl.semconv import attributes
from otel_rl.telemetry import redaction
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, error_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

#: Most exceptions of a chain, and frames of a traceback, that are looked at.
_MOST_CAUSES, _MOST_FRAMES = 32, 2000
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
#: Our own code is neither the program nor the library that failed, also where it is installed from a checkout.
_OURS = f"{Path(__file__).parents[1]}{os.sep}"
#: Files of the import system, and code of ``exec``, which have no file.
_WITHOUT_FILE = "<"

#: Returns how tracebacks name code whose file does not exist, as ``Cell In[3]`` of a notebook; None for other files.
name_of_code: Callable[[str], str | None] | None = None


class _Place(NamedTuple):
    """A line of code that an exception passed through."""

    file: str
    line: int
    function: str

    @property
    def library(self) -> str | None:
        """Package below site-packages that the file belongs to; None for any other file."""
        for site in _SITES:
            _, found, rest = self.file.rpartition(site)
            if found:
                return rest.partition(os.sep)[0].removesuffix(".py")
        return None

    @property
    def is_of_python(self) -> bool:
        """True for the standard library and for the import system."""
        is_standard = self.file.startswith(_STANDARD_LIBRARY) and self.library is None
        return is_standard or self.file.startswith("<frozen ")

    @property
    def path(self) -> str:
        """The file for people: below site-packages, the standard library or the working directory."""
        for site in _SITES:
            if site in self.file:
                return self.file.rpartition(site)[2]
        name = None if name_of_code is None else name_of_code(self.file)
        if name is not None or self.file.startswith(_WITHOUT_FILE):
            return name or self.file
        if self.file.startswith(_STANDARD_LIBRARY):
            return self.file.removeprefix(_STANDARD_LIBRARY)
        try:
            return self.file.removeprefix(f"{working_directory()}{os.sep}")
        except OSError:
            return self.file


def position(path: str, line: int | str) -> str:
    """Return file and line as tracebacks say them: ``train.py:8``; of a notebook's cell ``Cell In[3], line 1``."""
    return f"{path}, line {line}" if path.startswith("Cell In[") else f"{path}:{line}"


def exception_attributes(error: BaseException) -> dict[str, Any]:
    """Return ``exception.*`` of ``error``; None for a text that the user's function did not let pass."""
    stack = redaction.text("".join(traceback.format_exception(type(error), error, error.__traceback__)), "logs")
    return {
        attributes.EXCEPTION_TYPE: error_type(error),
        attributes.EXCEPTION_MESSAGE: redaction.text(str(error), "logs"),
        # Its end says where the exception was raised.
        attributes.EXCEPTION_STACKTRACE: None if stack is None else stack[-MAXIMUM_LENGTH:],
    }


def place_attributes(path: str, line: int, function: str | None) -> dict[str, Any]:
    """Return a line of code as attributes; its path is for people."""
    return {
        attributes.CODE_FILE_PATH: _Place(path, line, "").path,
        attributes.CODE_LINE_NUMBER: line,
        attributes.CODE_FUNCTION_NAME: function,
    }


def origin_attributes(error: BaseException) -> dict[str, Any]:
    """Return the root cause of ``error``, where it was raised, and where the program was then."""
    chain = causes(error)
    root = chain[-1]
    places = [*_syntax_place(root), *_places(root.__traceback__)]
    raised = next((place for place in places if not place.is_of_python), places[0] if places else None)
    values: dict[str, Any] = {}
    if root is not error:
        values[attributes.RL_CAUSE_EXCEPTION_TYPE] = error_type(root)
        values[attributes.RL_CAUSE_EXCEPTION_MESSAGE] = redaction.text(str(root), "logs")
    if raised is not None:
        values[attributes.CODE_FILE_PATH] = raised.path
        values[attributes.CODE_LINE_NUMBER] = raised.line
        values[attributes.CODE_FUNCTION_NAME] = raised.function
        values[attributes.RL_EXCEPTION_LIBRARY] = raised.library
        own = _of_program(chain)
        if own is not None and own != raised:
            values[attributes.RL_EXCEPTION_PROGRAM_LOCATION] = f"{position(own.path, own.line)}, in {own.function}"
    return values


def causes(error: BaseException) -> list[BaseException]:
    """Return ``error``, what caused it or was being handled when it was raised, and so on; the root cause comes last.

    Of a group of exceptions the first one counts.
    """
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain and len(chain) < _MOST_CAUSES:
        chain.append(following)
        following = _cause(following)
    return chain


def _cause(error: BaseException) -> BaseException | None:
    members = getattr(error, "exceptions", None)
    if isinstance(members, tuple) and members and isinstance(members[0], BaseException):
        return members[0]
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _syntax_place(error: BaseException) -> list[_Place]:
    """Return the line that cannot be compiled: the traceback of a SyntaxError ends where that was tried."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return [_Place(error.filename, error.lineno, "<module>")]
    return []


def _of_program(chain: list[BaseException]) -> _Place | None:
    """Return the innermost line of the program's own files, looked for from the root cause outwards."""
    for error in reversed(chain):
        for place in _places(error.__traceback__):
            if not (place.is_of_python or place.library or place.path.startswith(_WITHOUT_FILE)):
                return place
    return None


def _places(trace: TracebackType | None) -> Iterator[_Place]:
    """Return the lines that the exception passed through, the innermost first; not those of our own code."""
    places: list[_Place] = []
    while trace is not None and len(places) < _MOST_FRAMES:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            # Of a module that is being imported its name says more than "<module>".
            module = trace.tb_frame.f_globals.get("__name__")
            is_import = code.co_name == "<module>" and isinstance(module, str) and module != "__main__"
            function = f"{module}.{code.co_name}" if is_import else getattr(code, "co_qualname", code.co_name)
            places.append(_Place(code.co_filename, trace.tb_lineno, function))
        trace = trace.tb_next
    return reversed(places)
