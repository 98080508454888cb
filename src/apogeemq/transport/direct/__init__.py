"""Connections of threads that wait for their answers themselves."""
