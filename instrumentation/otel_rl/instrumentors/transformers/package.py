"""Versions of Transformers whose ``Trainer`` we patch."""

REQUIREMENT = "transformers >= 4.56, < 6"
