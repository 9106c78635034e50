"""What generated code and its callers share: tiles, kernels, parameters, array layouts."""
