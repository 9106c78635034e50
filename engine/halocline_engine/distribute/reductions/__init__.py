"""Sums, means, extremes and histograms of a dataset, in one pass over its blocks."""
