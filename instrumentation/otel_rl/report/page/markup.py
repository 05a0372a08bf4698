"""The templates of the page, ready to be filled."""

from __future__ import annotations

import functools
import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from otel_rl.core import __version__
from otel_rl.report.core.cells import in_one_unit
from otel_rl.report.page import sparkline

_CODE = re.compile(r"`([^`\n]+)`")
# What could end a script element early; in code this never occurs, in its strings the escape means the same.
_ENDS_SCRIPT = re.compile(r"<(?=!--|/?script)", re.IGNORECASE)


@functools.cache
def environment() -> Environment:
    """Return what fills the templates; text of a run is escaped."""
    made = Environment(
        loader=PackageLoader("otel_rl.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = _with_code
    made.globals.update(sparkline=sparkline, in_one_unit=in_one_unit, version=__version__)
    return made


def in_script(script: str) -> Markup:
    """Return JavaScript, or JSON, such that no text in it ends its element."""
    return Markup(_ENDS_SCRIPT.sub(r"\\u003c", script))  # noqa: S704 - the data in it is JSON


def _with_code(text: str) -> Markup:
    """Return the text as HTML, with what stands between backticks as code."""
    parts = _CODE.split(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))
