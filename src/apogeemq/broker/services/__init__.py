"""What happens without being asked, on a clock."""
