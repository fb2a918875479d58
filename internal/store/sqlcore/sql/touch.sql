-- Says that admissions of a pool changed, so that what others counted of them is void.
UPDATE pools SET last_place = $3, version = version + 1, touched_at = $4, freed = freed + $5
WHERE name = $1 AND version = $2
