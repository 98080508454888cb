"""Commands for people: parse, call, render."""
