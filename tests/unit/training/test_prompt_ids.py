"""Ids of TRL's prompts: of their text alone, and none where a prompt is more than text."""

from __future__ import annotations

import subprocess
import sys

from otel_rl.training import prompt_ids

QUESTION = [{"role": "user", "content": "What is 2 + 3?"}]


def ids(*prompts):
    found = prompt_ids.texts(list(prompts), len(prompts))
    return None if found is None else prompt_ids.ids(found)


def test_equal_prompts_have_equal_ids_and_others_have_others():
    first, again, other, plain = ids(
        QUESTION, [dict(QUESTION[0])], [{"role": "user", "content": "?"}], "What is 2 + 3?"
    )

    assert first == again
    assert len({first, other, plain}) == 3


def test_a_content_in_parts_has_the_id_of_its_text():
    in_parts = [{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "2 + 3?"}]}]

    assert ids(QUESTION) == ids(in_parts)


def test_roles_and_the_borders_of_messages_count():
    one = [{"role": "user", "content": "ab"}, {"role": "user", "content": "c"}]
    other = [{"role": "user", "content": "a"}, {"role": "user", "content": "bc"}]
    system = [{"role": "system", "content": "ab"}, {"role": "user", "content": "c"}]

    assert len(set(ids(one, other, system))) == 3


def test_what_is_more_than_text_has_no_id():
    image = [{"role": "user", "content": [{"type": "image", "image": object()}, {"type": "text", "text": "?"}]}]
    call = [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]

    assert ids(image, QUESTION, call, 7)[::2] == [None, None]
    assert ids(image, call) is None


def test_prompts_that_are_not_one_per_sample_have_no_ids():
    assert prompt_ids.texts([QUESTION], 2) is None
    assert prompt_ids.texts(None, 1) is None


def test_text_that_is_no_unicode_has_an_id():
    assert len(ids("a \udc80 b")[0]) == 12


def test_the_id_is_the_same_in_every_process():
    program = "from otel_rl.training import prompt_ids; print(prompt_ids.ids([('user', 'What is 2 + 3?')])[0])"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)

    assert [other.stdout.strip()] == ids(QUESTION)
