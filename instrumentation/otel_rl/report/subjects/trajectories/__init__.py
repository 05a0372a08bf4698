"""The samples of the run: counts, groups, advantages, and what was said in some."""
