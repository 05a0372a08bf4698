"""Checker and generator of the semantic conventions registry; a tool of this repository, not shipped."""
