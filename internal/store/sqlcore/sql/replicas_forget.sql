DELETE FROM replicas WHERE heard_at <= $1
