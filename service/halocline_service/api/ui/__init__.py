"""The web page: HTML that is readable without JavaScript, and its scripts and styles."""
