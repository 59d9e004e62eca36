"""The service's interface: listings and filters, the HTTP client, throttling, tokens."""
