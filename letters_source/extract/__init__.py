"""How a listing is read: from settings to rows that were shown to be whole."""
