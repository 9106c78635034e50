"""What requests need before they are answered: who asks, checked inputs, pages, limits."""
