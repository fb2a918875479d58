-- oldest_program: 3
-- Expand: the program before this one keeps no decisions.

-- What callers were told, for a day. The numbers say which is newer.
CREATE TABLE decisions (
    number   integer NOT NULL PRIMARY KEY,
    id       text    NOT NULL UNIQUE,
    consumer text    NOT NULL,
    key      text    NOT NULL,
    at       integer NOT NULL, -- when it was written
    evidence text    NOT NULL, -- '' for none
    document text    NOT NULL  -- JSON
);
CREATE INDEX decisions_of_key ON decisions (key, number);
CREATE INDEX decisions_at ON decisions (at);

-- What there was to see of the hosts. Many decisions rest on the same.
CREATE TABLE decision_evidence (
    id       text    NOT NULL PRIMARY KEY, -- a hash of the document
    at       integer NOT NULL,             -- when the last decision that rests on it was written
    document text    NOT NULL              -- JSON
);
CREATE INDEX decision_evidence_at ON decision_evidence (at);
