"""What takes longer since a step."""
