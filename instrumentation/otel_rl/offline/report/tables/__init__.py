"""The tables of the page: titles, texts, and what to sort by."""
