"""No code of the program and no device is asked for what an object holds."""

from __future__ import annotations

import datetime as dt
import decimal
import pathlib
import types
import uuid
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from otel_rl.telemetry.attribute_values import number, numbers_of, plain, truth


class Asked:
    """Fails the test where its text, its truth or its shape is asked for."""

    def __str__(self):  # noqa: PLE0307 - it never returns
        pytest.fail("asked")

    __repr__ = __bool__ = __len__ = __float__ = __int__ = __iter__ = __str__
    shape = property(__str__)


class DeviceTensor(Asked):
    """Has the module and the attributes of a tensor on a device."""

    shape = (1,)
    device = types.SimpleNamespace(type="cuda")
    item = tolist = Asked.__str__


DeviceTensor.__module__, DeviceTensor.__name__ = "torch", "Tensor"


class Sample(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    name: str
    tokens: Any


class Record:
    """As ``attrs`` makes classes with slots."""

    __slots__ = ("name", "tokens")
    __attrs_attrs__ = (types.SimpleNamespace(name="name"), types.SimpleNamespace(name="tokens"))

    def __init__(self, name, tokens):
        self.name, self.tokens = name, tokens


@pytest.mark.parametrize("make", [types.SimpleNamespace, Sample, Record])
def test_of_records_the_fields_are_taken_and_no_tensor_is_read(make):
    found = plain(make(name="a", tokens=DeviceTensor()))
    assert found["name"] == "a"
    assert found["tokens"].startswith("<Tensor shape=(1,) ")


def test_of_other_objects_the_class_is_named():
    assert plain(Asked()) == "<Asked>"
    assert plain({"batch": [Asked()]}) == {"batch": ["<Asked>"]}
    assert plain(ValueError("lost", Asked())) == "<ValueError>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (pathlib.PurePosixPath("/data"), "/data"),
        (decimal.Decimal("1.50"), "1.50"),
        (3j, "3j"),
        (int, "<class 'int'>"),
        (ValueError("lost"), "lost"),
        (KeyError("name"), "'name'"),
    ],
)
def test_small_values_of_the_standard_library_are_their_text(value, expected):
    assert plain(value) == expected


def test_an_attribute_of_an_object_that_is_no_array_is_not_asked_for():
    assert number(Asked()) is None
    assert numbers_of(Asked(), 3) is None


def test_no_more_elements_of_an_array_are_taken_than_asked_for():
    assert numbers_of(np.arange(10), 3) == [0, 1, 2]
    assert numbers_of(np.zeros((2, 2)), 3) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (None, False),
        (0, False),
        ("no", True),
        ([], False),
        (np.bool_(False), False),
        (np.array([2.0]), True),
        (object(), True),
        (np.zeros(2), None),
        (DeviceTensor(), None),
        (Asked(), None),
    ],
)
def test_a_truth_that_only_the_program_or_a_device_can_tell_is_none(value, expected):
    assert truth(value) is expected
