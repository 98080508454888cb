"""Messages that come to a program by themselves: how they reach it, and what becomes of them."""
