"""No code of the program and no device is asked for what an object holds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import types
import uuid
from typing import Any

import attrs
import numpy as np
import pydantic
import pydantic.v1
import pytest
from pydantic import BaseModel

from otel_rl.telemetry.attribute_values import clean, number, numbers_of, plain, plain_content, truth


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


@attrs.define
class Record:
    name: str
    tokens: Any


@pytest.mark.parametrize("make", [types.SimpleNamespace, Sample, Record])
def test_of_records_the_fields_are_taken_and_no_tensor_is_read(make):
    found = plain(make(name="a", tokens=DeviceTensor()))
    assert found["name"] == "a"
    assert found["tokens"].startswith("<Tensor shape=(1,) ")


@attrs.define
class HiddenByAttrs:
    url: str = "u"
    token: str = attrs.field(default="secret", repr=False)
    masked: str = attrs.field(default="secret", repr=lambda _: "***")


@dataclasses.dataclass
class HiddenByDataClass:
    url: str = "u"
    token: str = dataclasses.field(default="secret", repr=False)


@dataclasses.dataclass(slots=True)
class HiddenBesideSlots:
    url: str = "u"
    token: str = dataclasses.field(default="secret", repr=False)


@pydantic.dataclasses.dataclass
class HiddenByPydantic:
    url: str = "u"
    token: str = pydantic.Field("secret", repr=False)
    left_out: str = pydantic.Field("secret", exclude=True)


class HiddenByModel(BaseModel):
    url: str = "u"
    token: str = pydantic.Field("secret", repr=False)
    left_out: str = pydantic.Field("secret", exclude=True)


class HiddenByOldModel(pydantic.v1.BaseModel):
    url: str = "u"
    token: str = pydantic.v1.Field("secret", repr=False)
    left_out: str = pydantic.v1.Field("secret", exclude=True)


@pytest.mark.parametrize(
    "make",
    [HiddenByAttrs, HiddenByDataClass, HiddenBesideSlots, HiddenByPydantic, HiddenByModel, HiddenByOldModel],
)
def test_what_a_class_hides_from_its_repr_is_not_recorded(make):
    assert plain(make()) == plain_content(make()) == {"url": "u"}
    assert plain({"of": [make()]}) == {"of": [{"url": "u"}]}


@pytest.mark.parametrize("library", [pydantic, pydantic.v1])
def test_fields_that_a_model_was_given_beyond_its_own_are_recorded(library):
    class Open(library.BaseModel):
        if library is pydantic:
            model_config = {"extra": "allow"}
        else:

            class Config:
                extra = "allow"

        url: str = "u"

    assert plain(Open(kept="by the server")) == {"url": "u", "kept": "by the server"}


class Raises:
    """A descriptor that cannot compute its value yet."""

    def __get__(self, instance, owner=None):
        if instance is not None:
            pytest.fail("asked")

    def __set__(self, instance, value):
        pass


@dataclasses.dataclass
class Session:
    url: str = "u"
    session: object = Raises()


@dataclasses.dataclass
class Guarded:
    url: str = "u"

    def __getattribute__(self, name):
        if name == "url":
            raise RuntimeError
        return object.__getattribute__(self, name)


class AnswersAll(type):
    def __getattr__(cls, name):
        return lambda *_: name


class RaisesAll(type):
    def __getattr__(cls, name):
        raise RuntimeError(name)


class OfAnswers(metaclass=AnswersAll):
    pass


class OfErrors(metaclass=RaisesAll):
    pass


class BrokenMapping(dict):
    def items(self):
        raise RuntimeError


class BrokenSet(set):
    def __iter__(self):
        raise RuntimeError


class LyingText:
    __class__ = str


class LyingClass:
    @property
    def __class__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Session(), {"url": "u", "session": "<Raises>"}),
        (Guarded(), {"url": "u"}),
        (OfAnswers(), "<OfAnswers>"),
        (OfErrors(), "<OfErrors>"),
        (BrokenMapping(a=1), "<BrokenMapping>"),
        (BrokenSet({1}), "<BrokenSet>"),
        (LyingText(), "<LyingText>"),
        (LyingClass(), "<LyingClass>"),
        (HiddenByModel.model_construct(), {"url": "u"}),
        (object.__new__(Record), {}),
        (object.__new__(HiddenByModel), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_whose_code_raises_costs_its_own_value_only(value, expected):
    assert plain({"value": value, "kept": 1}) == {"value": expected, "kept": 1}
    assert clean({"value": value, "kept": 1}) == {"value": expected, "kept": 1}


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


class Outcome(enum.Enum):
    LOST = 0


class Count(enum.IntEnum):
    NONE = 0


class Tags(dict):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Outcome.LOST, True),
        (Count.NONE, False),
        (decimal.Decimal(0), False),
        (decimal.Decimal("0.5"), True),
        (dt.timedelta(0), False),
        (Tags(), False),
        (Tags(a=1), True),
        (OfErrors(), True),
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
