-- Whether something lives on a host is looked up only of those that may have left.
SELECT id, state, CASE WHEN heard_at > registered_at THEN heard_at ELSE registered_at END,
    CASE WHEN heard_at > $1 OR registered_at > $1 THEN true
         ELSE EXISTS (SELECT 1 FROM admissions WHERE host <> '' AND host = hosts.id AND state IN ('admitted', 'running', 'releasing')) END
FROM hosts
