"""What is slower than its siblings all along: a tool, a reward function, a server."""
