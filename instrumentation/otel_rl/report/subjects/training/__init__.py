"""The values that the trainer logged."""
