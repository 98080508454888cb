"""Typed headers, grouped by who is asked."""
