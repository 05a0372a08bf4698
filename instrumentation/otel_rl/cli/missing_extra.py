"""Says which extra of the package brings what is missing."""

from __future__ import annotations

from otel_rl.cli import complain

#: Module of a package that an extra brings -> the extra.
_EXTRAS = {
    "bokeh": "report", "jinja2": "report", "markupsafe": "report", "numpy": "report", "tqdm": "report",
    "tornado": "report", "rich": "live",
}  # fmt: skip


def explain(command: str, error: ModuleNotFoundError) -> int:
    """Say what to install; the exit code for that.

    Raises:
        ModuleNotFoundError: ``error``, where it is none of a package that an extra brings.
    """
    missing = (error.name or "").partition(".")[0]
    if missing not in _EXTRAS:
        raise error
    fix = f"pip install {missing}, or install otel-rl with its extra `{_EXTRAS[missing]}`"
    return complain(command, f"needs {missing}, which is not installed: {fix}")
