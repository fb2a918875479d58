SELECT name FROM pools ORDER BY name @lock
