-- oldest_program: 2
-- Expand: the program before this one goes on working. What it registers is active and has no
-- credential, as an agent in a replica's own process; it takes a buried host for one that fell silent.

ALTER TABLE hosts ADD COLUMN endpoint text NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'cordoned', 'draining', 'buried'));
ALTER TABLE hosts ADD COLUMN credential text NOT NULL DEFAULT ''; -- SHA-256 in hex; none: ''
ALTER TABLE hosts ADD COLUMN version text NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN bounds text NOT NULL DEFAULT '{}'; -- JSON
ALTER TABLE hosts ADD COLUMN buried_at integer NOT NULL DEFAULT 0 CHECK ((buried_at > 0) = (state = 'buried'));

ALTER TABLE pulse ADD COLUMN hosts_version integer NOT NULL DEFAULT 0; -- rises with each change of a host but for heard_at

CREATE TABLE join_tokens (
    id         text    PRIMARY KEY,
    sha256     text    NOT NULL UNIQUE, -- in hex
    host       text    NOT NULL,
    created_by text    NOT NULL,
    created_at integer NOT NULL,
    expires_at integer NOT NULL CHECK (expires_at > created_at),
    used_at    integer NOT NULL CHECK ((used_at > 0) = (used_by <> '')),
    used_by    text    NOT NULL
) WITHOUT ROWID;
