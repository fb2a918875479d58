DELETE FROM decisions WHERE at <= $1
