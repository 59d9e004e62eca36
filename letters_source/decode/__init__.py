"""Page bytes to Arrow rows."""
