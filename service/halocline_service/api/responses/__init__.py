"""Content of answers: files and ranges, status, pictures, figures, documents."""
