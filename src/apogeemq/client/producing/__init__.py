"""Producers: what becomes of a message until a broker has it."""
