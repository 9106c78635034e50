"""Steps of several stages on arrays that stay in memory."""
