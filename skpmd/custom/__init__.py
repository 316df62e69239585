"""A user's own model, by its values or its gradients."""

from skpmd.custom._estimator import ParticleMirrorDescent

__all__ = ["ParticleMirrorDescent"]
