"""What the telemetry lost or could not see, and its own cost."""
