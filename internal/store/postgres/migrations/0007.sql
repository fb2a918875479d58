-- oldest_program: 3
-- Expand: the programs before this one go on writing deeds without an origin.

-- Names a deed of a host by the host, its incarnation and its number: several replicas are
-- told of it, and each may be told twice. Empty: done through a replica, in the same step.
ALTER TABLE audit ADD COLUMN origin text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX audit_origin ON audit (origin) WHERE origin <> '';
