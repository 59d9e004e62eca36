"""The service's interface: listings and filters, HTTP client, rate limits, tokens."""
