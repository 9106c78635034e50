"""Arrays in memory that several processes of one machine have."""
