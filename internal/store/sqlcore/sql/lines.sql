-- What each pool in force shows.
SELECT name, cap, max_waiting,
    (SELECT count(*) FROM admissions WHERE pool = name AND state IN ('placing', 'admitted', 'running', 'releasing')),
    (SELECT count(*) FROM admissions WHERE pool = name AND state = 'waiting_capacity')
FROM pools
WHERE in_force
ORDER BY name
