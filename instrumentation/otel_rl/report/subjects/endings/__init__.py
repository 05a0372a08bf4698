"""How the run ended, where that was not in order."""
