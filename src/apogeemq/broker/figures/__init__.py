"""What a broker tells people of itself, in numbers."""
