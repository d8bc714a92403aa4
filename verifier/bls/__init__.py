"""BLS signature verification for drand's schemes: one interface, several backends."""
