"""What surrounds a call: its time limit, Ctrl-C's aftermath, who hears of progress, threads.

It knows nothing of particles or models, and nothing of skpmd but itself.
"""
