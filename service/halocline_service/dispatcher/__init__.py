"""The process that takes jobs out of the database and has them computed."""
