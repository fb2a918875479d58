SELECT id, incarnation, endpoint, state, credential, version, bounds, registered_at,
    CASE WHEN heard_at > registered_at THEN heard_at ELSE registered_at END, buried_at
FROM hosts ORDER BY id
