"""A package of a user: an agent, its rewards and a loop, which know nothing of otel-rl."""
