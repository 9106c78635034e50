"""What can be executed: the inputs, outputs and checks of each process."""
