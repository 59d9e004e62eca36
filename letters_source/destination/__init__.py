"""Where rows go: what a destination is, how it is loaded, and what it holds before and after."""
