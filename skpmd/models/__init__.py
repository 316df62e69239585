"""Models: how probable data are under many parameters at once. See `skpmd.models.base`."""
