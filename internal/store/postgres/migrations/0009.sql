-- oldest_program: 3
-- Expand: the program before this one reserves by the rules of classes, and leaves what was learned alone.

-- What is known of each template of a class: what replicas read, and what the next step needs.
CREATE TABLE templates (
    class    text NOT NULL,
    template text NOT NULL,
    known    text NOT NULL, -- JSON
    document text NOT NULL, -- JSON
    PRIMARY KEY (class, template)
);

-- What each host saw of their runs in one life, all of it in one row.
CREATE TABLE template_runs (
    class       text NOT NULL,
    template    text NOT NULL,
    host        text NOT NULL,
    incarnation bigint NOT NULL,
    sequence    bigint NOT NULL,
    document    text NOT NULL, -- JSON
    PRIMARY KEY (class, template, host, incarnation)
);
CREATE INDEX template_runs_of_host ON template_runs (host);

-- The one row is the lock of both.
CREATE TABLE learning (
    one bigint NOT NULL PRIMARY KEY CHECK (one = 1)
);
INSERT INTO learning (one) VALUES (1);
