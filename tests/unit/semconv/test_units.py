import pytest

from instrumentation.registry.units import is_unit


@pytest.mark.parametrize(
    "unit",
    ["s", "ms", "By", "KiBy", "1", "%", "{step}", "{token}/s", "By/s", "m/s2", "W.h", "s{wait}", "{a.b/c}", "Cel"],
)
def test_units_of_ucum_are_accepted(unit):
    assert is_unit(unit)


@pytest.mark.parametrize(
    "unit",
    [
        "",
        "seconds",
        "S",
        "sec",
        "b",
        "bytes",
        "step",
        "{}",
        "{step",
        "s/",
        "/s",
        "By per s",
        "m/s^2",
        "12",
        "kmin",
        "10",
    ],
)
def test_other_words_are_refused(unit):
    assert not is_unit(unit)
