"""Blocks of the event loops of asyncio programs."""
