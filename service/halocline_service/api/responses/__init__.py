"""What answers are made of: files and ranges, status, pictures, figures, documents."""
