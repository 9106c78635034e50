"""Where values come from and where results go, by regions."""
