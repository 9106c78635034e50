"""The model that generated code and its callers share: tiles, kernels, parameters, layouts."""
