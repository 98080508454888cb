"""The nouns of the system; pure data, no I/O."""
