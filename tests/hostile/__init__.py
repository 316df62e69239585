"""Input that nobody should give: each call ends in a sane answer, or in an error that was meant."""
