SELECT beat_at, heard_since FROM pulse WHERE one = 1 @lock
