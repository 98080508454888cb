"""A run as it is seen: its queries and epochs followed, its status published."""
