"""What a function on datasets will do, and what one has done."""
