"""How new weights reach the engines, and syncs that brought nothing or a part."""
