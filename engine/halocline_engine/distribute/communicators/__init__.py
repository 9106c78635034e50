"""Messages between the processes, or threads, that keep the blocks of a job."""
