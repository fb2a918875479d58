-- What digest.Sum is made of, by host and state: one walk through an index that has it all,
-- in its order. As its partial index says, host <> ''. 2147483647 is digest.Prime.
SELECT host, state, count(*), CAST(sum(epoch % 2147483647) AS bigint),
       CAST(sum((epoch % 2147483647) * (epoch % 2147483647) % 2147483647) AS bigint)
FROM admissions WHERE host <> ''
GROUP BY host, state
