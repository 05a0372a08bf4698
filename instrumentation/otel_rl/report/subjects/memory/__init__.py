"""Memory over time, garbage collections and compilations."""
