-- What no decision rests on any more, $1 being later than all.
DELETE FROM decision_evidence WHERE at < coalesce((SELECT min(at) FROM decisions), $1)
