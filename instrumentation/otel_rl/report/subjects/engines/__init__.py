"""What inference engines did in the steps."""
