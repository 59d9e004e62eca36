"""Turn rows into the rows of each table: personal data treated, children split off, row hashes added."""
