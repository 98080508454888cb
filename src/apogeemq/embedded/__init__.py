"""Several parties under one roof: demonstrations and supervisors."""
