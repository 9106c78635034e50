"""The web page: HTML that can be read without JavaScript, and the files that enliven it."""
