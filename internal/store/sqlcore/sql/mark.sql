-- Notes which absent waiters a grant went by.
UPDATE admissions AS a SET late = r.late, spared_at = r.spared_at
FROM (SELECT value ->> 'id' AS id, CAST(value ->> 'late' AS boolean) AS late,
        CAST(value ->> 'spared_at' AS bigint) AS spared_at
    FROM @rows($1) AS marked) AS r
WHERE a.id = r.id AND a.state = 'waiting_capacity'
