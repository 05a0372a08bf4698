"""Where the time of the steps goes."""
