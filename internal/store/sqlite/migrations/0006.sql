-- oldest_program: 3
-- Expand: the program before this one finds what a host holds by the new index as by the old.

-- Replicas sum up what is on each host every few seconds, and read nothing but this for it.
DROP INDEX on_host;
CREATE INDEX held_of_host ON admissions (host, state, epoch) WHERE host <> '';
