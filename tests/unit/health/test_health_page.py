"""The constants and the page are those of rules.yaml."""

from __future__ import annotations

from instrumentation import health_rules
from otel_rl.health.machine import JUDGES
from otel_rl.health.rule_table import RULES
from otel_rl.semconv.attributes import RlHealthCodeValues

PAGE = health_rules.ROOT / health_rules.PAGE


def copied(tmp_path):
    for path in (health_rules.RULES, health_rules.TABLE, health_rules.PAGE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((health_rules.ROOT / path).read_bytes())
    return tmp_path


def test_the_generated_files_are_current():
    assert health_rules.main(["--check"]) == 0


def test_a_changed_rule_fails_the_check_until_both_files_are_written(tmp_path, capsys):
    root = copied(tmp_path)
    rules = root / health_rules.RULES
    rules.write_text(rules.read_text().replace("kl_warning: {value: 1.0", "kl_warning: {value: 1.5"))

    assert health_rules.main(["--check"], root) == 1
    assert capsys.readouterr().err.count("run `make generate`") == 2
    assert health_rules.main([], root) == 0
    assert health_rules.main(["--check"], root) == 0
    assert "- `kl_warning` 1.5 `{nat}`," in (root / health_rules.PAGE).read_text()


def test_every_code_of_the_registry_has_a_rule_a_judge_and_a_row_on_the_page():
    codes = {value for key, value in vars(RlHealthCodeValues).items() if key.isupper()}

    assert set(RULES) == set(JUDGES) == codes
    assert all(f"| [`{code}`](#{code.lower()}) |" in PAGE.read_text() for code in codes)
