"""An id for each prompt, made of its text: the same on every rank, in every step and in every run.

It is a hash of 48 bits: of 100,000 prompts two are taken for one with a probability of 0.002 %. Nobody reads a prompt
out of it; who knows a prompt can compute its id.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGITS = 12
#: Between the texts of a prompt, in none of which it is valid Unicode.
_SEPARATOR = b"\xff"

#: Roles and contents of a prompt in their order, or its only text; None for a prompt that is more than text.
PromptTexts = tuple[str, ...] | None


def texts(prompts: Any, count: int) -> list[PromptTexts] | None:
    """Return the texts of prompts, which nobody changes; None where there are not as many as samples."""
    if not isinstance(prompts, list) or len(prompts) != count:
        return None
    found = list(map(_texts, prompts))
    return found if any(found) else None


def _texts(prompt: Any) -> PromptTexts:
    if isinstance(prompt, str):
        return (prompt,)
    if not isinstance(prompt, list):
        return None
    parts: list[str] = []
    for message in prompt:
        role, content = (message.get("role"), message.get("content")) if type(message) is dict else (None, None)
        if type(content) is list:
            content = _joined(content)
        if not isinstance(role, str) or not isinstance(content, str):
            return None
        parts += (role, content)
    return tuple(parts)


def _joined(parts: list[Any]) -> str | None:
    """Return the text of a content in parts; None where one of them is an image, say."""
    found: list[str] = []
    for part in parts:
        text = part.get("text") if type(part) is dict and part.get("type") == "text" else None
        if not isinstance(text, str):
            return None
        found.append(text)
    return "".join(found)


def ids(prompts: Sequence[PromptTexts]) -> list[str | None]:
    """Return the id of each prompt; a group of samples has one prompt many times."""
    known: dict[PromptTexts, str | None] = {None: None}
    for prompt in prompts:
        if prompt is not None and prompt not in known:
            encoded = _SEPARATOR.join(text.encode("utf-8", "surrogatepass") for text in prompt)
            known[prompt] = sha256(encoded).hexdigest()[:_DIGITS]
    return [known[prompt] for prompt in prompts]
