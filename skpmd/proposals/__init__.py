"""Where particles start: proposals fitted to a posterior, their weights, and moves that follow.

Searches for optima and ridges, fitted densities, rounds of reweighting, Hamiltonian moves and steps
from the prior whose particles are moved on the way. It knows the engine, and the engine knows
nothing of it; neither knows scikit-learn or any particular model.
"""
