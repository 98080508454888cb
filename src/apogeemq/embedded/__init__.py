"""Several parties under one roof, for demonstrations."""
