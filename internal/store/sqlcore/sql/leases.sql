SELECT id, state, CASE WHEN heard_at > registered_at THEN heard_at ELSE registered_at END FROM hosts
