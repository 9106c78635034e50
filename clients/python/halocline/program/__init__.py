"""Programs as text, from Python functions and files."""
