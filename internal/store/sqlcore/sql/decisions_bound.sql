-- All but the $1 newest.
DELETE FROM decisions WHERE number <= (SELECT max(number) FROM decisions) - $1
