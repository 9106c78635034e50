"""Tests of the web page: a package, so that the browser they share ends with it."""
