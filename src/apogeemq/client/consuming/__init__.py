"""Consumers: what becomes of a message from the broker to the program, and back to an offset."""
