"""Program text from Python functions and files."""
