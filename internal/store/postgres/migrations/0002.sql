-- oldest_program: 1
-- Expand: the program before this one goes on working. New columns have defaults that mean
-- what it does, and no constraint forbids what it writes. That a waiter alone has memory set
-- aside (stand_at) is therefore not among them yet: that program keeps the column when it
-- moves a row on; whoever reads takes it for void then.

ALTER TABLE settings ADD COLUMN ceiling bigint NOT NULL DEFAULT 0 CHECK (ceiling >= -1);

ALTER TABLE pools ADD COLUMN shares text NOT NULL DEFAULT '[]'; -- JSON
ALTER TABLE pools ADD COLUMN audience text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN slot_ttl_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN ticket_ttl_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN override_cap bigint NOT NULL DEFAULT 0 CHECK (override_cap >= 0);
ALTER TABLE pools ADD COLUMN override_since bigint NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN override_until bigint NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN override_by text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN override_reason text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN touched_at bigint NOT NULL DEFAULT 0; -- its admissions last changed: no later change is dated before that
ALTER TABLE pools ADD COLUMN freed bigint NOT NULL DEFAULT 0; -- slots that its admissions gave back, ever

-- at is written by whoever proves that the store can be written; these two tell an outage.
ALTER TABLE pulse ADD COLUMN beat_at bigint NOT NULL DEFAULT 0;
ALTER TABLE pulse ADD COLUMN heard_since bigint NOT NULL DEFAULT 0;
-- The server's clock when it was last compared, and by how much the store's is ahead of it.
ALTER TABLE pulse ADD COLUMN raw_at bigint NOT NULL DEFAULT 0;
ALTER TABLE pulse ADD COLUMN ahead_ms bigint NOT NULL DEFAULT 0 CHECK (ahead_ms >= 0);

ALTER TABLE hosts ADD COLUMN heard_at bigint NOT NULL DEFAULT 0;

CREATE TABLE audit (
    id      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    done_at bigint  NOT NULL,
    done_by text    NOT NULL,
    what    text    NOT NULL,
    reason  text    NOT NULL
);

CREATE TABLE replicas (
    id       text COLLATE "C" PRIMARY KEY,
    address  text    NOT NULL,
    version  text    NOT NULL,
    key_ids  text    NOT NULL,
    heard_at bigint  NOT NULL
);

ALTER TABLE admissions ADD COLUMN hold_on_exit boolean NOT NULL DEFAULT false;
ALTER TABLE admissions ADD COLUMN priority bigint NOT NULL DEFAULT 0;
ALTER TABLE admissions ADD COLUMN audience text NOT NULL DEFAULT '';
ALTER TABLE admissions ADD COLUMN instance text NOT NULL DEFAULT '';
ALTER TABLE admissions ADD COLUMN hostless_since bigint NOT NULL DEFAULT 0;
ALTER TABLE admissions ADD COLUMN stand_at text NOT NULL DEFAULT '';
ALTER TABLE admissions ADD COLUMN live_until bigint NOT NULL DEFAULT 0;
ALTER TABLE admissions DROP CONSTRAINT held_by_a_host;
ALTER TABLE admissions DROP CONSTRAINT epoch_on_host;
ALTER TABLE admissions ADD CONSTRAINT held_by_somebody CHECK ((state IN ('admitted', 'running', 'releasing')) = (host <> '' OR audience <> ''));
ALTER TABLE admissions ADD CONSTRAINT held_once CHECK (host = '' OR audience = '');
ALTER TABLE admissions ADD CONSTRAINT epoch_when_held CHECK ((host = '' AND audience = '') OR epoch > 0);
ALTER TABLE admissions ADD CONSTRAINT lives_by_being_heard_of CHECK (audience = '' OR live_until > 0);
ALTER TABLE admissions ADD CONSTRAINT released_by_a_host CHECK (state <> 'releasing' OR audience = '');

CREATE INDEX held_of_holder ON admissions (pool, consumer, priority) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
DROP INDEX held_of_pool;
DROP INDEX out_of_line;
CREATE INDEX live_until ON admissions (live_until) WHERE audience <> '';
