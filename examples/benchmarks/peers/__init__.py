"""Other people's methods and exact computations that the studies compare skpmd with."""
