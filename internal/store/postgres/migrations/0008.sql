-- oldest_program: 3
-- Expand: the program before this one keeps what it is told of other schedulers in its memory.

-- What another scheduler decided, judged, for as long as its outcome may be told.
CREATE TABLE observed (
    number   bigint NOT NULL PRIMARY KEY,
    consumer text   NOT NULL,
    key      text   NOT NULL,
    host     text   NOT NULL,
    at       bigint NOT NULL,
    yes      bigint NOT NULL CHECK (yes IN (0, 1)),
    document text   NOT NULL,
    UNIQUE (consumer, key, host)
);
CREATE INDEX observed_of_host ON observed (host, at) WHERE yes = 1;

-- What came of all of it, in one row.
CREATE TABLE compared (
    one      bigint NOT NULL PRIMARY KEY CHECK (one = 1),
    document text   NOT NULL
);
INSERT INTO compared (one, document) VALUES (1, '{}');
