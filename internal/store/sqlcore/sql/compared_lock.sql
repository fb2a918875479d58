-- The one row is the lock of every case.
SELECT document FROM compared WHERE one = 1 @lock
