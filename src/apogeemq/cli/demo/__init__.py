"""The demonstration: its command, and what it shows."""
