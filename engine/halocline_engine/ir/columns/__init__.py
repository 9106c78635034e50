"""The column language: from operators on staggered columns to the IR."""
