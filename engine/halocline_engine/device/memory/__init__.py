"""Device, page-locked and zero-copy memory."""
