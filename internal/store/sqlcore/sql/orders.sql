SELECT scope, name, since, given_by, reason FROM orders
