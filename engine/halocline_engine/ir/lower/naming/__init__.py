"""Names of a program: constants, scopes and externals."""
