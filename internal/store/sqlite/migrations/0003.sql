-- oldest_program: 2
-- Expand: the program before this one leaves the column as it is, and judges silent hosts by
-- its own rule.

-- When more than half of the hosts were last silent together. Whether they were until now,
-- nobody wrote down: they get the time of one lease.
ALTER TABLE pulse ADD COLUMN hosts_since integer NOT NULL DEFAULT 0;
UPDATE pulse SET hosts_since = beat_at;
