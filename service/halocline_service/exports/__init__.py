"""Files made of results, in processes of their own with limits of time and memory."""
