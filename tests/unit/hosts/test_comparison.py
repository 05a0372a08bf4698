"""Which differences between two runs of a foreign suite count, on fabricated outcomes."""

from __future__ import annotations

import pytest
from hosts.comparison import Difference, counts, differences, verdict, with_reruns

SAME = {"a": "passed"}
DIFFERS = ({"b": "passed"}, {"b": "failed"})
AGREES = ({"b": "passed"}, {"b": "passed"})


def test_equal_outcomes_are_no_difference():
    assert differences({"a": "passed", "b": "xfailed"}, {"b": "xfailed", "a": "passed"}) == []


def test_a_test_that_fails_in_both_modes_is_no_difference():
    assert differences({"a": "failed"}, {"a": "failed"}) == []


def test_another_outcome_is_a_difference():
    assert differences({**SAME, "b": "passed"}, {**SAME, "b": "failed"}) == [Difference("b", "passed", "failed")]


def test_a_test_that_only_one_mode_ran_is_a_difference():
    assert differences({"a": "passed"}, {"b": "passed"}) == [
        Difference("a", "passed", "missing"),
        Difference("b", "missing", "passed"),
    ]


def test_a_failure_turned_into_a_pass_is_a_difference():
    assert differences({"a": "failed"}, {"a": "passed"}) == [Difference("a", "failed", "passed")]


def test_a_difference_in_every_rerun_is_new():
    found = with_reruns(differences(*DIFFERS), [DIFFERS] * 3)

    assert verdict(found, {}, DIFFERS[0]).new == [Difference("b", "passed", "failed", 3)]


def test_a_difference_in_two_of_three_reruns_is_unsettled():
    found = with_reruns(differences(*DIFFERS), [DIFFERS, AGREES, DIFFERS])
    result = verdict(found, {}, DIFFERS[0])

    assert result.new == []
    assert result.unsettled == [Difference("b", "passed", "failed", 2)]


def test_a_rerun_in_which_another_test_differs_does_not_count_for_this_one():
    found = with_reruns(differences(*DIFFERS), [({"c": "passed"}, {"c": "failed"})] * 3)

    assert [each.seen_again for each in found] == [0]


def test_a_difference_that_the_table_explains_is_known():
    found = with_reruns(differences(*DIFFERS), [DIFFERS] * 3)
    result = verdict(found, {"b": "the list of handlers holds ours"}, DIFFERS[0])

    assert result.new == []
    assert [each.test for each in result.known] == ["b"]
    assert result.stale == []


def test_a_known_difference_that_is_gone_has_to_leave_the_table():
    assert verdict([], {"b": "mended since"}, {"b": "passed"}).stale == ["b"]


@pytest.mark.parametrize("ran", [{"a": "passed"}, {"b": "skipped"}], ids=["not selected", "skipped"])
def test_a_known_difference_whose_test_did_not_run_may_stay(ran):
    assert verdict([], {"b": "not on this interpreter"}, ran).stale == []


def test_a_known_difference_seen_in_some_reruns_may_stay():
    found = with_reruns(differences(*DIFFERS), [DIFFERS, AGREES, AGREES])
    result = verdict(found, {"b": "an order of events"}, DIFFERS[0])

    assert [each.test for each in result.unsettled] == ["b"]
    assert result.stale == []


def test_outcomes_are_counted_by_word():
    assert counts({"a": "passed", "b": "failed", "c": "passed"}) == {"failed": 1, "passed": 2}
