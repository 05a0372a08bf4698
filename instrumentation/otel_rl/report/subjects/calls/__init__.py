"""Rollouts, tool calls, model calls and agents."""
