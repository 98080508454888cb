"""Typed bodies, grouped by domain."""
