"""The particle mirror descent engine: particles, steps, rejuvenation, schedules, diagnostics.

Nothing in here knows scikit-learn or any particular model.
"""
