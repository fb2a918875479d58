CREATE TABLE settings (
    one           bigint PRIMARY KEY CHECK (one = 1),
    default_quota bigint NOT NULL CHECK (default_quota >= -1)
);

CREATE TABLE pools (
    name        text COLLATE "C"    PRIMARY KEY,
    cap         bigint NOT NULL CHECK (cap >= -1),
    max_waiting bigint NOT NULL CHECK (max_waiting >= 0),
    in_force    boolean NOT NULL,
    last_place  bigint NOT NULL DEFAULT 0,
    version     bigint NOT NULL DEFAULT 0 -- rises with each change of an admission of the pool
);

CREATE TABLE tenants (
    name  text COLLATE "C"    PRIMARY KEY,
    quota bigint CHECK (quota >= -1)
);

-- Not transactional and never locked: numbers may be skipped, never given twice, and rise
-- with the order of the locks under which they are taken.
CREATE SEQUENCE numbers AS bigint;

CREATE TABLE pulse (
    one bigint PRIMARY KEY CHECK (one = 1),
    at  bigint NOT NULL
);
INSERT INTO pulse VALUES (1, 0);

CREATE TABLE hosts (
    id            text COLLATE "C"    PRIMARY KEY,
    incarnation   bigint NOT NULL UNIQUE,
    registered_at bigint NOT NULL
);

CREATE TABLE config (
    generation bigint PRIMARY KEY CHECK (generation > 0),
    document   text    NOT NULL,
    applied_by text    NOT NULL,
    applied_at bigint NOT NULL
);

CREATE TABLE admissions (
    id               text COLLATE "C"    NOT NULL PRIMARY KEY,
    consumer         text COLLATE "C"    NOT NULL,
    key              text COLLATE "C"    NOT NULL,
    tenant           text COLLATE "C"    NOT NULL,
    class            text COLLATE "C"    NOT NULL,
    template         text    NOT NULL,
    memory_mb        bigint NOT NULL,
    cpu_milli        bigint NOT NULL,
    labels           text    NOT NULL,
    pinned_host      text    NOT NULL,
    prefer           boolean NOT NULL,
    stateful         boolean NOT NULL,
    pool             text COLLATE "C"    NOT NULL,
    mode             text    NOT NULL CHECK (mode IN ('refuse', 'queue')),
    max_queue_age_ms bigint NOT NULL,
    state            text    NOT NULL CHECK (state IN ('waiting_capacity', 'placing', 'admitted', 'running', 'releasing',
                                                       'released', 'timed_out', 'expired', 'evicted', 'lost')),
    reason           text    NOT NULL,
    gen              bigint NOT NULL,
    epoch            bigint NOT NULL,
    host             text COLLATE "C"    NOT NULL,
    place            bigint NOT NULL,
    waited           boolean NOT NULL,
    late             boolean NOT NULL,
    spared_at        bigint NOT NULL,
    waiting_for      text    NOT NULL,
    queued_at        bigint NOT NULL,
    present_until    bigint NOT NULL,
    hostless_at      bigint NOT NULL,
    placing_at       bigint NOT NULL,
    admitted_at      bigint NOT NULL,
    reserved_until   bigint NOT NULL,
    running_at       bigint NOT NULL,
    freed_at         bigint NOT NULL,
    ended_at         bigint NOT NULL,

    CONSTRAINT one_admission_a_key UNIQUE (consumer, key),
    CONSTRAINT held_by_a_host CHECK ((state IN ('admitted', 'running', 'releasing')) = (host <> '')),
    CONSTRAINT epoch_on_host CHECK (host = '' OR epoch > 0),
    CONSTRAINT generation_not_below_epoch CHECK (gen >= epoch),
    CONSTRAINT placing_at_a_generation CHECK (state <> 'placing' OR gen > 0),
    CONSTRAINT waiting_at_a_place CHECK (state <> 'waiting_capacity' OR (mode = 'queue' AND place > 0 AND waiting_for <> '')),
    CONSTRAINT ended_out_of_line CHECK (state IN ('waiting_capacity', 'placing', 'admitted', 'running', 'releasing')
                                        OR (ended_at > 0 AND place = 0)),
    CONSTRAINT running_since CHECK (state <> 'running' OR running_at > 0)
);

CREATE UNIQUE INDEX one_admission_a_place ON admissions (pool, place) WHERE place > 0;
CREATE INDEX held_of_pool ON admissions (pool) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
CREATE INDEX held_of_tenant ON admissions (tenant) WHERE state IN ('placing', 'admitted', 'running', 'releasing');
CREATE INDEX line_of_pool ON admissions (pool, place) WHERE state = 'waiting_capacity';
CREATE INDEX out_of_line ON admissions (pool) WHERE state = 'placing' AND waited;
CREATE INDEX placing_since ON admissions (placing_at) WHERE state = 'placing';
CREATE INDEX freed_of_pool ON admissions (pool, freed_at) WHERE freed_at > 0;
CREATE INDEX ended_since ON admissions (ended_at) WHERE ended_at > 0;
CREATE INDEX on_host ON admissions (host) WHERE host <> '';
