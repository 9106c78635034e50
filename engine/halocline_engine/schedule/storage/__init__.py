"""Where temporaries live: registers, memory that blocks of threads share, arrays."""
