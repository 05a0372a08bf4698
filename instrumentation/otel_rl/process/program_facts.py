"""What the program of this process is: its arguments without secrets, its commit, the versions it has loaded, its age.

Read once, off the program's threads. Nothing is started and nothing of the program is imported for it.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import working_directory
from otel_rl.process import agent_libraries, child_processes, lifetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REMOVED = "***"
"""Stands for a secret."""

#: Distributions that shape a run, by the module that says that they are loaded.
_LIBRARIES = {
    **{module: library.distribution for module, library in agent_libraries.LIBRARIES.items()},
    **agent_libraries.ROUTERS,
    "accelerate": "accelerate",
    "datasets": "datasets",
    "deepspeed": "deepspeed",
    "langchain_core": "langchain-core",
    "langgraph": "langgraph",
    "lightning": "lightning",
    "openai": "openai",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "peft": "peft",
    "torch": "torch",
    "transformers": "transformers",
    "trl": "trl",
    "vllm": "vllm",
}

# -- versions ----------------------------------------------------------------------------------------------------------


def loaded_versions() -> dict[str, str]:
    """Return distribution -> version, of Python and of the libraries that the program has loaded."""
    versions = {"python": platform.python_version()}
    for module, distribution in _LIBRARIES.items():
        loaded = sys.modules.get(module)
        if loaded is None:
            continue
        # Looking into the metadata of a distribution reads its file, and may import what reads it.
        own = vars(loaded).get("__version__")
        with suppress(PackageNotFoundError, OSError, ImportError):
            versions[distribution] = own if type(own) is str else version(distribution)
    return versions


# -- arguments ---------------------------------------------------------------------------------------------------------

_MOST_ARGUMENTS = 64
_LONGEST_ARGUMENT = 256
_LONGEST_LOOKED_AT = 4 * _LONGEST_ARGUMENT
_QUOTES = "\"'"
#: Words in the name of an option whose value is a secret. `tokens` counts tokens, `token` is one or a special one.
_SECRET_WORDS = {
    *(
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "cookies",
        "cred",
        "credential",
        "credentials",
        "creds",
        "dsn",
        "jwt",
    ),
    *("key", "keys", "mnemonic", "pass", "passcode", "passphrase", "passwd", "password", "passwords", "pat", "pw"),
    *("pwd", "secret", "secrets", "session", "sig", "signature", "tok", "token", "webhook"),
}
#: The same as the end of a word, or of several: `authtoken`, `mykey` and `-Dpassword`, not `monkey`.
_SECRET_END = re.compile(
    r"(token|secret|passw(or)?d|(access|account|ai|api|auth|encryption|hf|master|my|private|secret|ssh|wandb)_?key)$"
    r"|(access|api|auth|bearer|hf|hub|refresh|secret)_?tokens$"
)
#: Names of secrets that may be numbers.
_PASSWORD = re.compile(r"(^|_)(pass|pw$|pwd|secret)")
#: Keys of the name, where a mapping has a name and its value.
_NAMES = ("name", "key", "header", "variable")
#: Names of several secrets.
_SEVERAL = re.compile(r"(cookies|keys|tokens|secrets|passwords|credentials|creds)$")
#: Words that say of which kind a `key` or `token` is, where that is no secret.
_HARMLESS = re.compile(
    r"(^|_)(by|pad|eos|bos|unk|mask|sep|cls|image|stop|end|start|special|per|sort|group|column|text|prompt|label|"
    r"dataset|feature|max|min|num|n|fn|metric|answer)_(token|key)s?$|(^|_)key_value(_|$)|"
    r"(^|_)(token|key)_(id|ids|length|limit|count|column|name)$"
)
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
#: What may stand before the `=` of an option, as argparse and Hydra have it.
_OPTION = re.compile(r"[-+~]*[\w.-]+")
#: No secret, whatever the option is called; and what is none unless it is called a password.
_PLAIN_WORD = re.compile(r"(?i)(true|false|none|null|yes|no|auto)?$")
_PLAIN_NUMBER = re.compile(r"(?i)-?\d{1,6}(\.\d+)?(e-?\d+)?$")
#: A name in a value that itself has names: JSON, a connection string, a header, a command line.
_VALUE = r"""(?P<value>\[[^\]]*\]?|\{[^}]*\}?|"[^"]*|'[^']*|[^"'\s,;&}]+)"""
_NAMED_INSIDE = re.compile(rf"""(?P<name>[\w.-]{{1,64}})(?P<between>["']?\s*[:=]\s*){_VALUE}""")
_OPTION_INSIDE = re.compile(rf"(?<!\S)(?P<name>--?[\w.-]{{2,64}})(?P<between>\s+)(?!-){_VALUE}")
_SCHEME = re.compile(r"(?i)\b(bearer|basic|token|apikey)\s+[^\s\"',;]+")
#: Credentials and query of an address, and what follows `#`.
_USER = re.compile(r"(?P<scheme>([A-Za-z][\w+.-]*:)?//)[^/\s]*@|(?<![\w./])[\w.+-]+:[^/@\s]+@(?=\w)")
_QUERY = re.compile(r"(?P<address>[A-Za-z][\w+.-]*://[^\s?#\"']*)[?#][^\s\"']*")
#: Keys that have no name beside them: by the prefixes of vendors, as private keys and tokens begin, and long strings
#: of digits and letters of both cases, or of hexadecimal digits.
_KEY = re.compile(
    r"\b(sk|pk|rk|sess|gsk|xai|pplx|fw|csk|nvapi|pcsk|r8|hf|hf_oauth|api_org|tgp_v1|tvly|key|live|test|wandb_v1|local|"
    r"lsv2_pt|lsv2_sk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|npm|pypi|dckr_pat|xox[abeoprs]|xapp|SG|dop_v1|shpat|ya29)"
    r"[-_.](?=[\w.-]*\d)[\w.-]{12,}"
    # Those of Hugging Face may be letters alone.
    r"|\bhf_[A-Za-z0-9]{20,}"
    r"|\b(AKIA|ASIA|AIza)[\w-]{12,}|\beyJ[\w-]{8,}\.[\w.-]+|-----BEGIN.*"
    r"|(?<![A-Za-z0-9])(?=[A-Za-z0-9]*\d[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[a-z])(?=[A-Za-z0-9]*[A-Z])[A-Za-z0-9]{20,}"
    r"|(?<![A-Za-z0-9])[0-9a-fA-F]{32,}(?![A-Za-z0-9])",
    re.DOTALL,
)


def arguments(argv: Sequence[str], redact: Callable[[str], str | None] | None = None) -> list[str]:
    """Return the program and its arguments, without the interpreter and without what looks like a secret.

    ``redact`` is the user's own function: None for an argument that may not be recorded.
    """
    kind, which, rest = child_processes.program(argv)
    if kind == "none":
        return []
    # Code that was given as text may hold anything.
    program = {"module": ["-m", which], "code": ["-c", REMOVED]}.get(kind, [which])
    shown = [*program, *_without_secrets(rest[:_MOST_ARGUMENTS])]
    if redact is not None:
        shown = [REMOVED if (text := redact(value)) is None else text for value in shown]
    shown = [
        value if len(value) <= _LONGEST_ARGUMENT else f"{value[:_LONGEST_ARGUMENT]}\N{HORIZONTAL ELLIPSIS}"
        for value in shown
    ]
    left = len(rest) - _MOST_ARGUMENTS
    return [*shown, f"\N{HORIZONTAL ELLIPSIS} {left} more"] if left > 0 else shown


def setting(name: str, value: str, redact: Callable[[str], str | None]) -> str:
    """Return the value of a setting of the program, without what looks like a secret; ``redact`` as above."""
    if _is_secret_name(name):
        return value if _is_plain(value, name) else REMOVED
    shown = redact(_without_keys(value))
    return REMOVED if shown is None else shown


def structure(value: Any) -> Any:
    """Return a nested setting without what looks like a secret: a list as arguments, a name and its value as a setting.

    What names itself in the text of the whole is left to :func:`setting`.
    """
    return _Structure().of(value)


class _Structure:
    """Looks into one nested setting, at so many characters of it."""

    def __init__(self) -> None:
        self._left = 4 * _LONGEST_LOOKED_AT

    def of(self, value: Any, *, is_listed: bool = False) -> Any:
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list):
            return self._list(value, is_listed)
        return self._look(value) if isinstance(value, str) else value

    def _look(self, text: str) -> str:
        self._left -= min(len(text), _LONGEST_LOOKED_AT)
        return _without_keys(text) if self._left >= 0 else REMOVED

    def _mapping(self, values: dict[str, Any]) -> dict[str, Any]:
        shown = {key: self.of(value) for key, value in values.items()}
        keys = {str(key).lower(): key for key in values}
        name = next((values[keys[word]] for word in _NAMES if word in keys), None)
        if "value" in keys:
            shown[keys["value"]] = _named(name, shown[keys["value"]])
        return shown

    def _list(self, values: list[Any], is_listed: bool) -> list[Any]:
        texts = ["" if isinstance(value, dict | list) else str(value)[:_LONGEST_LOOKED_AT] for value in values]
        shown = [
            # What is no text stays what it is.
            value if same == text and not isinstance(value, str | dict | list) else same
            for value, text, same in zip(values, texts, _without_secrets(texts, self._look), strict=True)
        ]
        for place, value in enumerate(values):
            if isinstance(value, dict | list):
                shown[place] = self.of(value, is_listed=True)
        if is_listed and len(values) == len(("name", "value")):
            shown[1] = _named(values[0], shown[1])
        return shown


def _named(name: Any, value: Any) -> Any:
    if not isinstance(name, str) or not _is_secret_name(name) or _is_plain(str(value), name):
        return value
    return REMOVED


def _without_secrets(values: Sequence[str], look: Callable[[str], str] | None = None) -> Iterator[str]:
    look = look or _without_keys
    secret: str | None = None
    for value in values:
        is_option = value.startswith("--") or (value.startswith("-") and not value[1:2].isdigit())
        name, separator, assigned = value.partition("=")
        if secret is not None and not value.startswith("--"):
            yield value if _is_plain(value, secret) else REMOVED
            secret = secret if _SEVERAL.search(secret) else None
        elif separator and _OPTION.fullmatch(name) and _is_secret_name(name):
            yield value if _is_plain(assigned, name) else f"{look(name)}={REMOVED}"
            secret = None
        else:
            yield look(value)
            secret = value if is_option and not separator and _is_secret_name(value) else None


def _joined(name: str) -> str:
    return "_".join(word.lower() for word in _NAME_PARTS.findall(name))


def _is_secret_name(name: str) -> bool:
    joined = _joined(name)
    words = joined.split("_")
    if _HARMLESS.search(joined) and "secret" not in words and "api" not in words:
        return False
    return not _SECRET_WORDS.isdisjoint(words) or _SECRET_END.search(joined) is not None


def _is_plain(value: str, name: str) -> bool:
    """Return whether the value of an option with the name of a secret is none."""
    if _PLAIN_WORD.match(value):
        return True
    return _PLAIN_NUMBER.match(value) is not None and _PASSWORD.search(_joined(name)) is None


def _without_keys(value: str) -> str:
    # Of a longer one the patterns take minutes, in which the program stands still.
    value = value[:_LONGEST_LOOKED_AT]
    value = _USER.sub(lambda match: f"{match['scheme'] or ''}{REMOVED}@", value)
    value = _QUERY.sub(rf"\g<address>?{REMOVED}", value)
    value = _SCHEME.sub(rf"\1 {REMOVED}", value)
    for pattern in (_NAMED_INSIDE, _OPTION_INSIDE):
        value = "".join(_without_named(pattern, value))
    return _KEY.sub(REMOVED, value)


def _without_named(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    position = 0
    while match := pattern.search(text, position):
        value = match["value"]
        yield text[position : match.start("value")]
        # What is no secret may hold others.
        position = match.start("value")
        if _is_secret_name(match["name"]) and not _is_plain(value.strip(_QUOTES), match["name"]):
            yield f"{value[0] if value[0] in _QUOTES else ''}{REMOVED}"
            position = match.end("value")
    yield text[position:]


# -- commit ------------------------------------------------------------------------------------------------------------

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_LEVELS = 32
#: Largest file of references that is read, in bytes.
_LARGEST = 4 << 20


def commit(argv: Sequence[str]) -> str | None:
    """Return the commit that is checked out where the program is; None where that is no checkout of git.

    Of a module, and of a script that a package has installed, where it was started.
    """
    # The working directory may be gone, or a folder not ours to read.
    with suppress(OSError, ValueError):
        repository = _repository(_folder(argv))
        return None if repository is None else _head(repository)
    return None


def _folder(argv: Sequence[str]) -> Path:
    kind, which, _ = child_processes.program(argv)
    here = Path(working_directory())
    if kind != "script":
        return here
    folder = (here / which).parent
    return here if folder.is_relative_to(sys.prefix) else folder


def _repository(folder: Path) -> Path | None:
    for parent in [folder, *folder.parents][:_LEVELS]:
        found = parent / ".git"
        if found.is_dir():
            return found
        if found.is_file():
            # Of a worktree or submodule: https://git-scm.com/docs/gitrepository-layout
            _, _, target = _text(found).partition("gitdir:")
            return parent / target.strip() if target else None
    return None


def _head(repository: Path) -> str | None:
    head = _text(repository / "HEAD").strip()
    _, is_reference, reference = head.partition("ref:")
    if not is_reference:
        return _as_commit(head)
    name = reference.strip()
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    folders = [repository]
    with suppress(OSError):
        folders.append(repository / _text(repository / "commondir").strip())
    for folder in folders:
        with suppress(OSError):
            return _as_commit(_text(folder / name).strip())
    for line in _text(folders[-1] / "packed-refs").splitlines():
        found, _, packed = line.partition(" ")
        if packed == name:
            return _as_commit(found)
    return None


def _as_commit(text: str) -> str | None:
    return text if _COMMIT.fullmatch(text) else None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST).decode("utf-8", "replace")


# -- age ---------------------------------------------------------------------------------------------------------------


def created() -> int | None:
    """Return when the kernel made this process, in ns since the epoch to 10 ms; None where that is not known."""
    ticks = lifetime.own_start_ticks()
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if not ticks or clock is None:
        return None
    return time.time_ns() - time.clock_gettime_ns(clock) + ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
