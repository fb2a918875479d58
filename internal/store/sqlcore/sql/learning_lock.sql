-- The one row is the lock of every template.
SELECT one FROM learning WHERE one = 1 @lock
