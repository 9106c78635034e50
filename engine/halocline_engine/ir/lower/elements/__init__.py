"""Elements of arrays that an expression names: at levels of the run, of components, of tables."""
