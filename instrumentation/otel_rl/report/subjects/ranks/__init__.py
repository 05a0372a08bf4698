"""Ranks, the collectives in which they meet, and ranks that the others wait for."""
