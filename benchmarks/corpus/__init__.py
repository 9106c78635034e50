"""Programs in the shapes of real models: no constant of the engine was fitted to them."""
