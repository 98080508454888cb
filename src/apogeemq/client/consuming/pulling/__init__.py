"""Consumers whose programs ask for messages when they want them."""
