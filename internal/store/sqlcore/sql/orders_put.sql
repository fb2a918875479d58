INSERT INTO orders (scope, name, since, given_by, reason) VALUES ($1, $2, $3, $4, $5)
