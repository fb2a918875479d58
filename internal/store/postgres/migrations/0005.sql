-- oldest_program: 2
-- Expand: the programs before this one go on working. They know no shadow and enforce: while
-- both run, an order of an operator's is followed by the newer replicas alone.

ALTER TABLE pools ADD COLUMN enforcement bigint NOT NULL DEFAULT 0 CHECK (enforcement IN (0, 1)); -- 1: shadow
ALTER TABLE settings ADD COLUMN quota_enforcement bigint NOT NULL DEFAULT 0 CHECK (quota_enforcement IN (0, 1));

-- What operators took out of force, until they take that back.
CREATE TABLE orders (
    scope    text    NOT NULL CHECK (scope IN ('all', 'quotas', 'pool', 'host')),
    name     text    NOT NULL CHECK ((name = '') = (scope IN ('all', 'quotas'))),
    since    bigint  NOT NULL CHECK (since > 0),
    given_by text    NOT NULL,
    reason   text    NOT NULL,
    PRIMARY KEY (scope, name)
);
