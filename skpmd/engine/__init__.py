"""The particle mirror descent engine: clouds, steps, rejuvenation, schedules, diagnostics.

Nothing in here knows scikit-learn or any particular model.
"""
