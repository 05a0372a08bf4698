"""The user's file: what it may say, and how a mistake in it is told."""

from __future__ import annotations

import json
import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from made_up_runs import CRITICAL, HEALTHY, monitor

from otel_rl.health.rule_table import INPUTS, RULES
from otel_rl.health.user_rules import RefusedRulesError, defaults, load, read
from otel_rl.semconv.attributes import RlHealthCodeValues as Code

KL = Code.P3_KL_EXPLOSION


@pytest.fixture
def file(tmp_path):
    """Writes a rules file and returns its path."""

    def write(text):
        path = tmp_path / "rules.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(params=["yaml", "json"])
def without_yaml(request, monkeypatch):
    """With PyYAML and without it."""
    if request.param == "json":
        monkeypatch.setitem(sys.modules, "yaml", None)
    return request.param == "json"


def test_without_a_file_the_defaults_are_in_force():
    assert load(None) == (defaults(), "")
    assert load("") == (defaults(), "")


def test_limits_are_overridden_with_and_without_their_unit(file):
    rules = read(
        file(
            "rules:\n  P3_kl_explosion:\n    kl_warning: 2 nat\n    kl_critical: 9\n"
            "  P9_truncation: {warning: 30 %, window: 3}\n"
        )
    )

    assert rules.limits[KL]["kl_warning"] == 2.0
    assert rules.limits[KL]["kl_critical"] == 9.0
    assert rules.limits[KL]["update_warning"] == RULES[KL].limits["update_warning"].value
    assert rules.limits[Code.P9_TRUNCATION]["warning"] == 0.3
    assert monitor([{"kl": 7.0}] * 20, rules=rules).states()[KL] == 1


@pytest.mark.parametrize("word", ["off", "false", "Off", '"off"'])
def test_a_rule_is_switched_off(file, word):
    rules = read(file(f"rules:\n  P3_kl_explosion: {word}\n  P9_truncation: on\n"))

    assert KL not in rules.limits
    assert Code.P9_TRUNCATION in rules.limits
    assert KL not in monitor([{"kl": 7.0}] * 20, rules=rules).states()


def test_further_keys_come_before_the_known_ones(file):
    rules = read(file("inputs:\n  kl: my/divergence\n  repetition: [mine, 'other/*/share']\n"))

    assert rules.keys["kl"] == ("my/divergence", *INPUTS["kl"].keys)
    assert monitor([{"my/divergence": 7.0, "kl": 0.01}] * 20, rules=rules).states()[KL] == CRITICAL
    assert monitor([{"other/x/share": 0.0}] * 20, rules=rules).states()[Code.P8_GARBLED_OUTPUT] == HEALTHY


def test_an_empty_file_changes_nothing(file):
    assert read(file("")) == defaults()
    assert read(file("rules:\ninputs:\n")) == defaults()


def test_json_is_read_with_and_without_pyyaml(file, without_yaml):
    rules = read(file(json.dumps({"rules": {KL: {"kl_warning": 2}, "P9_truncation": False}})))

    assert rules.limits[KL]["kl_warning"] == 2.0
    assert Code.P9_TRUNCATION not in rules.limits


MISTAKES = {
    "an unknown section": ("ruls: {}\n", "line 1: ruls is no section; did you mean rules?"),
    "an unknown rule": ("rules:\n  P3_kl: {}\n", "line 2: P3_kl is no rule; did you mean P3_kl_explosion?"),
    "an unknown limit": (
        "rules:\n  P3_kl_explosion:\n    kl_warnin: 2\n",
        "line 3: kl_warnin is no limit of P3_kl_explosion; did you mean kl_warning?",
    ),
    "an unknown input": ("inputs:\n  entrpy: [x]\n", "line 2: entrpy is no input; did you mean entropy?"),
    "a wrong unit": (
        "rules:\n  P3_kl_explosion:\n\n    kl_warning: 2 tokens\n",
        "line 4: rules.P3_kl_explosion.kl_warning is in nat, not in tokens",
    ),
    "a unit where there is none": (
        "rules:\n  P4_entropy_collapse: {warning_share: 2 nat}\n",
        "line 2: rules.P4_entropy_collapse.warning_share is without a unit, not in nat",
    ),
    "a text": (
        "rules:\n  P3_kl_explosion:\n    kl_warning: high\n",
        "line 3: rules.P3_kl_explosion.kl_warning must be a number in nat, not 'high'",
    ),
    "a truth": (
        "rules:\n  P3_kl_explosion:\n    kl_warning: yes\n",
        "line 3: rules.P3_kl_explosion.kl_warning must be a number in nat, not True",
    ),
    "a negative number": (
        "rules:\n  P3_kl_explosion:\n    kl_warning: -1\n",
        "line 3: rules.P3_kl_explosion.kl_warning must be a number from 0 on, not -1",
    ),
    "no finite number": (
        "rules:\n  P3_kl_explosion:\n    kl_warning: .inf\n",
        "line 3: rules.P3_kl_explosion.kl_warning must be a number from 0 on, not inf",
    ),
    "half a step": (
        "rules:\n  P3_kl_explosion:\n    raise_after: 1.5\n",
        "line 3: rules.P3_kl_explosion.raise_after counts steps: it must be a whole number from 1 to 128",
    ),
    "a list for a rule": (
        "rules:\n  P3_kl_explosion: [1]\n",
        "line 2: rules.P3_kl_explosion must be off, or a mapping of limits to values, not [1]",
    ),
    "a number for keys": (
        "inputs:\n  kl: 3\n",
        "line 2: inputs.kl must be a key of the trainer, or a list of them, not 3",
    ),
    "a list": ("- rules\n", "rules.yaml: the file must be a mapping of names to values, not ['rules']"),
    "a key twice": ("rules:\n  P9_truncation: off\n  P9_truncation: on\n", "line 3: P9_truncation is there twice"),
    "limits the wrong way round": (
        "rules:\n  P9_truncation: {warning: 0.9, critical: 0.5}\n",
        "line 2: rules.P9_truncation has warning (0.9) behind critical (0.5)",
    ),
    "a warning behind the critical default": (
        "rules:\n  P3_kl_explosion: {kl_warning: 5}\n",
        "line 2: rules.P3_kl_explosion has kl_warning (5) behind kl_critical (3)",
    ),
    "an entropy the wrong way round": (
        "rules:\n  P4_entropy_collapse: {critical: 0.5}\n",
        "line 2: rules.P4_entropy_collapse has warning (0.1) behind critical (0.5)",
    ),
    "no YAML": ("rules: [\n", "line 2: is no YAML: "),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_with_line_and_reason_and_the_defaults_stay_in_force(name, file):
    text, message = MISTAKES[name]
    rules, complaint = load(str(file(text)))

    assert rules == defaults()
    assert message in complaint
    assert complaint.startswith("otel-rl: OTEL_RL_HEALTH_RULES: ")
    assert complaint.endswith("; the default health rules are in force")
    assert "\n" not in complaint


def test_one_right_line_beside_a_wrong_one_is_not_taken(file):
    rules, _ = load(str(file("rules:\n  P9_truncation: off\n  P3_kl_explosion: {kl_warnin: 1}\n")))

    assert rules == defaults()


def test_a_mistake_in_json_is_told_with_its_line(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(RefusedRulesError, match=r"line 3: kl_warnin is no limit of P3_kl_explosion"):
        read(file('{"rules": {\n"P3_kl_explosion": {\n"kl_warnin": 2}}}'))
    with pytest.raises(RefusedRulesError, match=r"line 2: is no JSON: .* \(PyYAML is not installed"):
        read(file("rules:\n  x: 1\n".replace("rules:", '{"rules":')))
    with pytest.raises(RefusedRulesError, match="P9_truncation is there twice"):
        read(file('{"rules": {"P9_truncation": false, "P9_truncation": false}}'))


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    assert "No such file or directory" in load(str(tmp_path / "none.yaml"))[1]
    assert "is not a file" in load(str(tmp_path))[1]
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in load(str(tmp_path / "pipe"))[1]
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert "is no text in UTF-8" in load(str(tmp_path / "bytes"))[1]
    (tmp_path / "large").write_bytes(b" " * (2 << 20))
    assert "is larger than" in load(str(tmp_path / "large"))[1]


@pytest.mark.parametrize("tag", ["!!int ''", "!!bool foo", "!!timestamp foo", "!!float foo", "!!set 3"])
def test_a_wrong_tag_is_refused(file, tag):
    assert "is no YAML" in load(str(file(f"rules:\n  P9_truncation: {tag}\n")))[1]


def test_a_number_of_too_many_digits_is_refused_without_pyyaml(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    text = '{"rules": {"P9_truncation": {"warning": %s}}}' % ("9" * 5000)

    assert "is no JSON" in load(str(file(text)))[1]


def test_a_list_that_stands_for_millions_of_items_is_refused_without_being_written_out(file):
    lists = [f"      - &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 30)]
    text = "\n".join(["rules:", "  P9_truncation:", "    warning:", "      - &a0 [x]", *lists, ""])

    assert "must be a number, not [" in load(str(file(text)))[1]


def test_a_key_of_many_stars_is_refused(file):
    assert "more than 3 stars" in load(str(file(f"inputs:\n  kl: '{'*x' * 40}'\n")))[1]


@given(some.text(max_size=60) | some.text(alphabet="[]{}:,- \n\"'&*!|>%@`?#ab1", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_file_raises(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")

    assert load(str(path))[0].limits
