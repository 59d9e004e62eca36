"""Read a listing from the service until it is proven complete."""
