"""The paper's experiments beside their competitors, its theorems and the engine's parts."""
