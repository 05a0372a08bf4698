"""Version of the distribution; one place for pyproject, scopes and the command line."""

__version__ = "0.1.0"
