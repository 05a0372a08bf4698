"""The project owns no domain: the URL of its own is a reserved one, and has one constant."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from otel_rl.semconv import SCHEMA_URL

ROOT = Path(__file__).parents[3]
PLACES = ("instrumentation", "dashboards", "docs", "collector-config", "compose", "examples", "benchmarks")
TEXT = {".css", ".html", ".j2", ".js", ".json", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}
OWN_URL = re.compile(r"https?://[\w.-]*(?:otel-?rl|otelcol-rl)\b[\w.-]*[^\s\"'`<>)]*", re.IGNORECASE)
#: Our name as a domain under a public suffix, with or without a scheme.
OWN_DOMAIN = re.compile(r"\b(?:otel-?rl|otelcol-rl)\.(?:ai|app|com|dev|io|net|org)\b", re.IGNORECASE)


def texts():
    files = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in TEXT]
    for path in [*files, *ROOT.glob("*.md"), ROOT / "pyproject.toml"]:
        yield path.relative_to(ROOT), path.read_text()


def test_the_host_of_our_constant_is_reserved():
    assert urlsplit(SCHEMA_URL).hostname == "otel-rl.invalid"


def test_no_other_url_of_the_project_exists():
    found = {(path, url) for path, text in texts() for url in OWN_URL.findall(text)}

    assert found
    ours = SCHEMA_URL.rpartition("/")[0]
    assert {(path, url) for path, url in found if not url.startswith(ours)} == set()


def test_the_constant_is_written_once_outside_of_generated_files():
    generated = {Path("instrumentation/otel_rl/semconv/__init__.py")}
    written = [
        (path, url)
        for path, text in texts()
        for url in OWN_URL.findall(text)
        if path not in generated and "generated" not in path.parts and "schemas" not in path.parts
    ]

    assert [url for _, url in written] == [SCHEMA_URL], written


def test_no_domain_that_somebody_else_may_own_bears_our_name():
    assert [(path, found) for path, text in texts() for found in OWN_DOMAIN.findall(text)] == []
