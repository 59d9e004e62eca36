"""The page of `letters report`."""
