"""Parts of all jobs: passes over blocks, block sizes, outputs and checkpoints."""
