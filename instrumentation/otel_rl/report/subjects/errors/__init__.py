"""Errors, uncaught exceptions and hangs."""
