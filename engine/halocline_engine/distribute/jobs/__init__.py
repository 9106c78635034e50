"""What all jobs share: passes over blocks, the size of blocks, outputs and checkpoints."""
