-- Cases write parts, under the lock of a shelf, and read films.
CREATE TABLE shop.parts (
    shelf      text NOT NULL,
    no         integer NOT NULL,
    name       text DEFAULT 'unnamed',
    quantity   integer NOT NULL DEFAULT 1 CONSTRAINT parts_quantity_positive CHECK (quantity > 0),
    serial     text,
    weight     bigint,
    price      numeric(12,2),
    attributes jsonb,
    tags       text[],
    made_at    timestamptz,
    "odd,name" text,
    PRIMARY KEY (shelf, no),
    CONSTRAINT parts_serial UNIQUE (shelf, serial)
);

INSERT INTO shop.parts (shelf, no, name)
VALUES ('nobody', 1, 'kept');

CREATE TABLE shop.films (
    id      integer PRIMARY KEY,
    title   text NOT NULL,
    year    integer,
    watched boolean,
    takings bigint,
    tags    text[] NOT NULL,
    meta    jsonb,
    aired   int4range NOT NULL,
    plot    text NOT NULL,
    shown   timestamptz
);

INSERT INTO shop.films
VALUES (1, 'Alien', 1979, true, 9007199254740993, '{space,horror}', '{"director": "Scott", "stars": {"lead": "Weaver"}}', '[1,10)', 'The crew of a ship meets a creature', '2026-01-01 12:00:00+00'),
       (2, 'Aliens', 1986, true, 9007199254740992, '{space,action}', '{"director": "Cameron"}', '[10,20)', 'Marines fight many creatures', '2026-01-01 13:00:00+00'),
       (3, 'Brazil', 1985, false, 3, '{satire}', '{"director": "Gilliam"}', '[5,15)', 'A clerk meets the ministry of information', NULL),
       (4, 'Solaris, again', NULL, NULL, NULL, '{}', NULL, '[30,40)', 'A ship, a sea, and a fat cat', NULL),
       (5, '100% "Wolf" a+b', 2020, false, -5, '{wolf,"a,b"}', '{"director": "O''Neil & Söhne"}', '[40,50)', 'Dogs', NULL);
