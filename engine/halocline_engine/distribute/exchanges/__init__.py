"""Exchange of halos between blocks: within a rank, by messages, and from device to device."""
