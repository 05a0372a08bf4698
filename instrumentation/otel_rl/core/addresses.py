"""Addresses as they may be shown: without the users, passwords, queries and tokens that people write into them.

The collector's components do the same in Go, in ``otelcol-builder/components/internal/addresses``. One list of cases,
in the test data there, holds both to the same answers.
"""

from __future__ import annotations

import re

REMOVED = "***"
"""What stands for a token in a path."""

# As texts: `re` compiles each when it is used first, which costs an import nothing.
_RUN = r'(?:[^\s"`<>\\]|\\[^\s"`<>])+'
"""What may be one address: an escaped quote ends it as a quote does."""
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?:://|%3[Aa]%2[Ff]%2[Ff])"
_END_OF_HOST = r"[/?#]"
_END_OF_ENCODED_HOST = r"[/?#]|%2[Ff]|%3[Ff]|%23"
_END_OF_PATH = r"[?#]|%3[Ff]"
_AT = r"@|%40"
_HOST = r"(?:\[[^\]]*\]|[^:\[\]]*)(?::[0-9]{0,5})?"
_NAME = r"[(\[']*(?:[A-Za-z_][A-Za-z0-9_]*=)?"
_CLOSING = ")]',;"
_SAYS_SO = r"(?:token|key|api[_-]?key|secret|password)"
_LONG = r"[A-Za-z0-9_.~%+:=-]{20,}"
_TAKEN_FOR_PORT = r"""(invalid port|to integer value as) (?:\\?"[^"]*"|'[^']*')"""
"""What Go and Python say of a password behind an address that they took for a port."""
_TAKEN_FOR_HOST = "tcp/"
"""What Go writes before a password that it took for the name of a port."""


def without_secrets(text: str) -> str:
    """Return a text with its addresses as they may be shown, those without a scheme too.

    Users, passwords, queries and fragments are left out. In the path of a URL :data:`REMOVED` stands for what follows
    ``token``, ``key`` and the like, and for what is long and has both letters and digits.
    """
    return re.sub(_RUN, lambda run: _shown(run[0]), re.sub(_TAKEN_FOR_PORT, r"\1", text))


def without_credentials(address: str) -> str:
    """Return one address without user, password, query and fragment; its path stays, which tells it from others."""
    # By hand: urlsplit takes a user for the scheme where there is none, and raises for some malformed addresses.
    scheme, separator, rest = address.rpartition("://") if "://" in address.partition("?")[0] else ("", "", address)
    shown = re.split("[?#]", rest, maxsplit=1)[0]
    authority, slash, path = shown.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def _shown(run: str) -> str:
    """Return a piece of a text without spaces: it is one URL or several, an account and a host, or no address."""
    schemes = list(re.finditer(_SCHEME, run))
    if not schemes:
        return _without_account(_without_query(run))
    ends = [*(scheme.start() for scheme in schemes[1:]), len(run)]
    urls = (
        scheme[0] + _without_userinfo(run[scheme.end() : end], is_encoded=not scheme[0].endswith("/"))
        for scheme, end in zip(schemes, ends, strict=True)
    )
    return "".join([_without_account(run[: schemes[0].start()]), *urls])


def _without_userinfo(rest: str, *, is_encoded: bool) -> str:
    """Return what follows a scheme, from the host on, with its path as it may be shown."""
    slashes = len(rest) - len(rest.lstrip("/"))  # one more in addresses of gRPC: dns:///host
    start, rest = rest[:slashes], rest[slashes:]
    end_of_host = _END_OF_ENCODED_HOST if is_encoded else _END_OF_HOST
    authority = re.split(end_of_host, rest, maxsplit=1)[0]
    if not re.search(_AT, authority) and not re.fullmatch(_HOST, authority):
        authority = rest  # no host is like this: an unescaped slash or question mark of a password looked like its end
    for at in list(re.finditer(_AT, authority))[-1:]:
        rest = rest[at.end() :]
    found = re.search(end_of_host, rest)
    host_ends = found.start() if found else len(rest)
    return start + rest[:host_ends] + _without_tokens(_cut(rest[host_ends:], re.search(_END_OF_PATH, rest[host_ends:])))


def _without_query(run: str) -> str:
    """Return what has no scheme without its query: behind a path, or with a name and a value."""
    before, mark, query = run.partition("?")
    is_query = bool(query) and ("/" in before or "=" in query)
    return _cut(run, re.search(r"\?", run)) if mark and is_query else run


def _cut(text: str, found: re.Match[str] | None) -> str:
    """Return a text up to a match, and the brackets and quotes around it that close at its end."""
    if found is None:
        return text
    cut = text[found.end() :]
    return text[: found.start()] + cut[len(cut.rstrip(_CLOSING)) :]


def _without_account(run: str) -> str:
    """Return what has no scheme without user and password before its host; a file's path stays."""
    head, at, host = run.rpartition("@")
    if not at:
        return run
    name = re.match(_NAME, head)
    begin = name.end() if name else 0
    account = head[begin:]
    is_path = account.startswith(("/", "./", "../", "~")) or ("/" in account and ":" not in account)
    if is_path and not account.startswith(_TAKEN_FOR_HOST):
        return run
    return head[:begin] + host


def _without_tokens(path: str) -> str:
    segments = path.split("/")
    for number, segment in enumerate(segments):
        if number and segment and re.fullmatch(_SAYS_SO, segments[number - 1].lower()):
            segments[number] = REMOVED
        else:
            segments[number] = re.sub(_LONG, _without_token, segment)
    return "/".join(segments)


def _without_token(found: re.Match[str]) -> str:
    has_both = re.search("[0-9]", found[0]) and re.search("[A-Za-z]", found[0])
    return REMOVED if has_both else found[0]
