"""Plans and records of functions on datasets."""
