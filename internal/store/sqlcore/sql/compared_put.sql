UPDATE compared SET document = $1 WHERE one = 1
