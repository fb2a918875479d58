"""A CI's dispatcher: it queues builds at the gate, and survives a crash at any step.

A build goes through durable steps, each a row in SQLite:

    submitted → waiting_capacity → admitted → running → finished → released

A 503 of the gate has no column to be written to: a build that waits is `waiting_capacity`, for as long as
it takes. `rejected` is for what waiting does not change (a class that does not exist, a token that is none).
"""
