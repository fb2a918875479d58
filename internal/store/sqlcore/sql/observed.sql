-- The cases of these (consumer, key, host), and the yeses at their hosts from $2 to $3.
SELECT o.document FROM @rows($1) AS wanted CROSS JOIN observed AS o
WHERE o.consumer = wanted.value ->> 0 AND o.key = wanted.value ->> 1 AND o.host = wanted.value ->> 2
UNION
SELECT o.document FROM @rows($1) AS wanted CROSS JOIN observed AS o
WHERE o.host = wanted.value ->> 2 AND o.yes = 1 AND o.at > $2 AND o.at <= $3
